"""The kinds of faults, in requests, measuring and deploying; `pytest.mark.fault(n)` marks tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `not_built` says what part of it waits for something that is not there yet."""

    number: int
    title: str
    not_built: str = ""
    whole: bool = True  # whether `not_built` is all of it


_SEMANTIC = "there is no semantic cache"

KINDS = (
    Kind(1, "a sensitive value split over two deltas gets past the output guardrail"),
    Kind(2, "state in a module leaks between requests that share an instance"),
    Kind(3, "the semantic cache answers the opposite question", _SEMANTIC),
    Kind(4, "the semantic cache sees only the last user text", _SEMANTIC),
    Kind(5, "the exact key leaves out a field that changes the output"),
    Kind(6, "the client is gone and the GPU goes on"),
    Kind(7, "a burst passes the limit"),
    Kind(8, "inbound headers are copied to the outbound call"),
    Kind(9, "a cache is shared by tenants", f"paraphrases: {_SEMANTIC}", whole=False),
    Kind(10, "a failing cache fails or hangs the request"),
    Kind(11, "a token is accepted that must not be"),
    Kind(12, "a key rotation locks out, or fetches without bound"),
    Kind(13, "a forwarded address resets the limit"),
    Kind(14, "the trace context is lost or believed"),
    Kind(15, "valid shapes are refused"),
    Kind(16, "unknown fields are dropped in silence"),
    Kind(17, "error texts leak"),
    Kind(18, "429 without a true Retry-After"),
    Kind(19, "latency is counted from dispatch, or a percentile from too few samples"),
    Kind(20, "chunks are counted as tokens"),
    Kind(21, "first content stops at the role, or skips the reasoning"),
    Kind(22, "failed requests make the figures look better"),
    Kind(23, "a rollout waits for the GPU that it holds itself"),
    Kind(24, "a slow model load is killed or timed out"),
    Kind(25, "the kubeconfig is taken as it comes, or before the cluster is there"),
    Kind(26, "pools are replaced on the second run, labels lost when nodes are recycled"),
    Kind(27, "destroy leaves what is billed"),
    Kind(28, "a Service called vllm poisons vLLM's own variable"),
)
