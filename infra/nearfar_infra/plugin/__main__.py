"""The plugin of the project's own resources."""

from __future__ import annotations

from nearfar_infra.plugin.servicer import Servicer
from nearfar_infra.plugin.serving import serve
from nearfar_infra.plugin.table import KINDS

if __name__ == "__main__":
    serve(Servicer(KINDS), workers=8)
