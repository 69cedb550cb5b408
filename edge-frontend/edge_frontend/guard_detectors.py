"""What the guardrails know by themselves: secrets and personal data, by form and by checksum.

Each detector is a pattern of `guard_pattern` and, where the form alone says too little, a check
that is given what the pattern found and answers how many of its characters are the match, 0 for
none. Only what the check is given may decide: a stream has nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Check = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Detector:
    """A pattern, its check, and texts of which every match holds at least one (none: unknown)."""

    pattern: str
    check: Check | None = None
    needs: tuple[str, ...] = ()


def card(found: str) -> int:
    """The longest run of whole groups that has 13 to 19 digits and the right check digit (Luhn)."""
    for end in _group_ends(found):
        digits = [int(sign) for sign in found[:end] if sign.isdigit()]
        doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
        if 13 <= len(digits) <= 19 and (sum(doubled) + sum(digits[-1::-2])) % 10 == 0:
            # A row of one digit is an example or a placeholder.
            return end if len(set(digits)) > 1 else 0
    return 0


def iban(found: str) -> int:
    """The longest run of whole groups that has its country's length and checksum (ISO 13616)."""
    for end in _group_ends(found):
        letters = found[:end].replace(" ", "")
        if len(letters) != _IBAN_CHARS.get(letters[:2], len(letters)):
            continue
        turned = letters[4:] + letters[:4]
        if (
            15 <= len(letters) <= 34
            and int("".join(str(int(sign, 36)) for sign in turned)) % 97 == 1
        ):
            return end
    return 0


def phone(found: str) -> int:
    """All of it when it has the digits of a telephone number (E.164: at most 15)."""
    return len(found) if 8 <= sum(sign.isdigit() for sign in found) <= 15 else 0


def _group_ends(found: str) -> list[int]:
    """Where a group of letters and digits ends, the last one first."""
    following = found[1:] + " "
    ends = [
        at
        for at, (sign, after) in enumerate(zip(found, following, strict=True), 1)
        if sign.isalnum() and not after.isalnum()
    ]
    return ends[::-1]


# ISO 13616 registry, the countries whose numbers are met most; others pass with any length.
_IBAN_CHARS = {
    entry[:2]: int(entry[2:])
    for entry in (
        "AD24 AE23 AT20 BE16 BG22 BR29 CH21 CY28 CZ24 DE22 DK18 EE20 ES24 FI18 FO18 FR27 GB22 GI23"
        " GL18 GR27 HR21 HU28 IE22 IL23 IS26 IT27 LI21 LT20 LU20 LV21 MC27 MT31 NL18 NO15 PL28"
        " PT25 RO24 SA24 SE24 SI19 SK24 SM27 TR26"
    ).split()
}

_LOCAL = r"[A-Za-z0-9_%+'-]"
_URL64 = r"[A-Za-z0-9_-]"
_ARMOUR = r"[A-Za-z0-9+/=:,.()\s\\]"  # with the backslash of an escaped line end

DETECTORS = {
    # Source of the lengths: RFC 5321 4.5.3.1. A dot stands between other characters (RFC 5322 3.4.1).
    "email": Detector(
        rf"{_LOCAL}(?:\.?{_LOCAL}){{0,63}}@(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}[A-Za-z]{{2,24}}",
        needs=("@",),
    ),
    # With a country's prefix, or in groups as North America writes them.
    "phone": Detector(
        r"(?<![\w+])(?:\+(?:[ .()/-]{0,2}[0-9]){8,15}"
        r"|\(?[2-9][0-9]{2}\)?[ .-]{1,2}[0-9]{3}[ .-][0-9]{4})(?![0-9])",
        phone,
    ),
    "card": Detector(r"(?<![0-9])[0-9](?:[ -]?[0-9]){12,22}(?![0-9])", card),
    "iban": Detector(
        r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}(?![A-Za-z0-9])", iban
    ),
    "nearfar_key": Detector(rf"nf_{_URL64}{{16,1960}}\.{_URL64}{{43}}", needs=("nf_",)),
    "aws_key": Detector(
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        needs=("AKIA", "ASIA", "ABIA", "ACCA"),
    ),
    "aws_secret": Detector(
        r"(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY|[Ss]ecretAccessKey)"
        r"""["']?\s{0,4}[:=]\s{0,4}["']?[A-Za-z0-9/+]{40}""",
        needs=("secret_access_key", "SECRET_ACCESS_KEY", "ecretAccessKey"),
    ),
    # The prefixes that their issuers document, so that scanners can find them.
    "api_key": Detector(
        rf"(?<![A-Za-z0-9])(?:sk-{_URL64}{{20,260}}|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{{16,250}}"
        r"|gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255}"
        rf"|glpat-{_URL64}{{20,64}}|xox[abeprs]-[A-Za-z0-9-]{{10,250}}|AIza{_URL64}{{35}}"
        r"|hf_[A-Za-z0-9]{30,64})",
        needs=(
            "sk-", "k_live_", "k_test_", "gh", "glpat-", "xox", "AIza", "hf_",
        ),
    ),
    # The armour with all that stands in it; one whose end does not come is masked as far as it goes.
    "private_key": Detector(
        r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_ARMOUR}{{1,80}}-(?!-)){{0,8}}{_ARMOUR}{{0,16384}}"
        r"(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?",
        needs=("PRIVATE KEY",),
    ),
}  # fmt: skip
