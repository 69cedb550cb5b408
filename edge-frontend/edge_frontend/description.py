"""The OpenAPI 3.1 description of every route, as GET /openapi.json answers it.

The file beside this module is written by hand; docs/http.md has the same routes in words. The
tests ask the real component by it, with what it allows and with what it does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Read at import on purpose: componentize-py freezes it into the component, which has no files.
DOCUMENT: Mapping[str, Any] = json.loads((Path(__file__).parent / "openapi.json").read_bytes())
