"""PyJWT, imported also where there is no `ssl`.

A component has none. PyJWT always imports its client for key servers, which wants it, and which
could not be used there: it blocks. So an empty module takes that client's place when the component
is built.
"""

from __future__ import annotations

import sys
from types import ModuleType

try:
    import ssl  # noqa: F401
except ImportError:
    _stand_in = ModuleType("jwt.jwks_client")
    _stand_in.PyJWKClient = object  # type: ignore[attr-defined]
    sys.modules.setdefault(_stand_in.__name__, _stand_in)

import jwt
from jwt.algorithms import Algorithm

__all__ = ["Algorithm", "jwt"]
