"""What can go wrong with a request, and how the client is told.

    EdgeError
    ├── BadRequest                400  invalid_request
    │   ├── ContextTooLong        400  context_length_exceeded
    │   ├── ContentPolicyViolation 400 content_policy_violation
    │   └── BodyTooLarge          413  request_too_large
    ├── Unauthorized              401  invalid_api_key
    ├── Forbidden                 403  permission_denied
    ├── NotFound                  404  not_found
    │   └── ModelNotFound         404  model_not_found
    ├── MethodNotAllowed          405  method_not_allowed
    ├── RateLimited               429  rate_limit_exceeded   (a limit of the caller's own;
    │   ├── ParallelLimited       429  parallel_limit_exceeded               with Retry-After)
    │   └── BudgetSpent           429  monthly_budget_exceeded
    ├── KeysUnavailable           503  issuer_unavailable    (a token's issuer; with Retry-After)
    ├── Misconfigured             503  misconfigured
    ├── StoreDown                 503  store_unavailable     (never reaches a chat client)
    └── UpstreamError             502  upstream_error
        ├── UpstreamRejected      4xx  upstream_rejected     (the model server refused the request)
        ├── UpstreamBusy    429, 503   upstream_busy         (with Retry-After)
        ├── UpstreamUnreachable   502  upstream_unreachable
        ├── UpstreamBroke         502  upstream_broke        (ended in the middle of an answer)
        └── UpstreamTimeout       504  upstream_timeout
            └── DeadlineExceeded  504  deadline_exceeded     (the host ends a request then)

Texts are ours: nothing that an upstream, a header or a prompt said stands in one, except that
`UpstreamRejected` and `ContextTooLong` pass on what a model server says of a request's own fault
(400, 413, 422).
The error object is OpenAI's: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import json


class EdgeError(Exception):
    """A failure the client is told about; the class says how, the message says what to do."""

    status = 500
    type = "server_error"
    code = "internal_error"
    stage = "receive"  # one of account.STAGES: where the time went that had no mark yet

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        status: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = headers
        if status is not None:
            self.status = status

    def body(self) -> bytes:
        """The OpenAI error object, as JSON."""
        error = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": error}, separators=(",", ":")).encode()


class BadRequest(EdgeError):
    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class ContextTooLong(BadRequest):
    code = "context_length_exceeded"


class ContentPolicyViolation(BadRequest):
    """A rule of the guardrails blocks a request or an answer."""

    code = "content_policy_violation"
    stage = "guard"
    rule = ""

    @classmethod
    def of(cls, rule: str) -> ContentPolicyViolation:
        """The error that names a rule, and nothing of what it found."""
        error = cls(f"The content policy does not allow this: rule `{rule}`.")
        error.rule = rule
        return error


class BodyTooLarge(BadRequest):
    status = 413
    code = "request_too_large"


class Unauthorized(EdgeError):
    status = 401
    type = "authentication_error"
    code = "invalid_api_key"
    stage = "authenticate"

    def __init__(self, message: str) -> None:
        super().__init__(message, headers=(("www-authenticate", 'Bearer realm="nearfar"'),))


class Forbidden(EdgeError):
    status = 403
    type = "permission_error"
    code = "permission_denied"
    stage = "authenticate"


class NotFound(EdgeError):
    status = 404
    type = "invalid_request_error"
    code = "not_found"


class ModelNotFound(NotFound):
    code = "model_not_found"


class MethodNotAllowed(EdgeError):
    status = 405
    type = "invalid_request_error"
    code = "method_not_allowed"


class RateLimited(EdgeError):
    """The caller's requests or tokens a minute are used up."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"
    stage = "admit"


class ParallelLimited(RateLimited):
    code = "parallel_limit_exceeded"


class BudgetSpent(RateLimited):
    code = "monthly_budget_exceeded"


class KeysUnavailable(EdgeError):
    """The keys of a token's issuer are not to be had, so nobody can say whether it is right."""

    status = 503
    code = "issuer_unavailable"
    stage = "authenticate"

    def __init__(self, message: str) -> None:
        super().__init__(message, headers=(("retry-after", "3"),))


class Misconfigured(EdgeError):
    status = 503
    code = "misconfigured"
    stage = "look_up"


class StoreDown(EdgeError):
    """The near store did not answer in time or not in order; a chat request goes on without it."""

    status = 503
    code = "store_unavailable"
    stage = "look_up"


class UpstreamError(EdgeError):
    status = 502
    type = "upstream_error"
    code = "upstream_error"
    stage = "model_call"


class UpstreamRejected(UpstreamError):
    type = "invalid_request_error"
    code = "upstream_rejected"


class UpstreamBusy(UpstreamError):
    status = 503
    type = "overloaded_error"
    code = "upstream_busy"


class UpstreamUnreachable(UpstreamError):
    code = "upstream_unreachable"


class UpstreamBroke(UpstreamError):
    code = "upstream_broke"


class UpstreamTimeout(UpstreamError):
    status = 504
    code = "upstream_timeout"


class DeadlineExceeded(UpstreamTimeout):
    code = "deadline_exceeded"
