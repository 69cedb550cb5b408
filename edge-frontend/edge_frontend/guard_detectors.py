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
    longest, count, sums = (
        0,
        0,
        [0, 0],
    )  # by which digits are doubled: every other one, from two places
    for at, sign in enumerate(found, 1):
        if sign.isdigit():
            sums[count % 2] += _DOUBLED[int(sign)]
            sums[1 - count % 2] += int(sign)
            count += 1
            ends_group = not found[at : at + 1].isdigit()
            if ends_group and 13 <= count <= 19 and sums[count % 2] % 10 == 0:
                longest = at
    # A row of one digit is an example or a placeholder.
    return longest if len(set(found) - {" ", "-"}) > 1 else 0


def iban(found: str) -> int:
    """As many whole groups as its country's numbers have, if the checksum is right (ISO 13616)."""
    length, letters = _IBAN_CHARS.get(found[:2], 0), found.replace(" ", "")
    if not 0 < length <= len(letters):
        return 0
    letters = letters[4:length] + letters[:4]
    end = length + _gaps(found, length)
    is_whole = not found[end : end + 1].isalnum()
    checksum = int("".join(str(int(sign, 36)) for sign in letters)) % 97
    return end if is_whole and checksum == 1 else 0


def phone(found: str) -> int:
    """All of it when it has the digits of a telephone number (E.164: at most 15)."""
    return len(found) if 8 <= sum(sign.isdigit() for sign in found) <= 15 else 0


def _gaps(found: str, letters: int) -> int:
    """How many gaps stand among the first letters of a text."""
    gaps = 0
    for at, sign in enumerate(found):
        if at - gaps == letters:
            break
        gaps += sign == " "
    return gaps


_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
# ISO 13616 registry: how long the numbers of each country are.
_IBAN_CHARS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22,
    "BI": 27, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27,
    "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27,
    "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28,
    "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28,
    "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22,
    "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23,
    "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24,
    "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28,
    "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip

_DIGITS = tuple("0123456789")
_URL64 = r"[A-Za-z0-9_-]"
_ARMOUR = r"[A-Za-z0-9+/=:,.()\s\\]"  # with the backslash of an escaped line end

DETECTORS = {
    # The lengths are those of RFC 5321 4.5.3.1.
    "email": Detector(
        r"[A-Za-z0-9_%+'-][A-Za-z0-9_.%+'-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}",
        needs=("@",),
    ),
    # With a country's prefix, or in groups as North America writes them.
    "phone": Detector(
        r"(?<![\w+])(?:\+(?:[ .()/-]{0,2}[0-9]){8,15}"
        r"|\(?[2-9][0-9]{2}\)?[ .-]{1,2}[0-9]{3}[ .-][0-9]{4})(?![0-9])",
        phone,
        _DIGITS,
    ),
    # In one row, or in groups of four or as American Express and Diners Club print them.
    "card": Detector(
        r"(?<![0-9])(?:[0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{3,6}){2,4})(?![0-9])", card, _DIGITS
    ),
    "iban": Detector(
        r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}(?![A-Za-z0-9])", iban, _DIGITS
    ),
    "nearfar_key": Detector(rf"nf_eyJ{_URL64}{{16,1960}}\.{_URL64}{{43}}", needs=("nf_",)),
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
    # The armour with all that stands in it; without an end, as far as it goes.
    "private_key": Detector(
        r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_ARMOUR}{{1,80}}-(?!-)){{0,8}}{_ARMOUR}{{0,16384}}"
        r"(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?",
        needs=("PRIVATE KEY",),
    ),
}  # fmt: skip
