"""nearfar images: which container images a deployment pulls, and their digests."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from nearfar import checkout, console, deployment
from nearfar.errors import Missing, NearfarError
from nearfar_infra import pinning
from nearfar_infra.errors import InfraError
from nearfar_infra.sources import read_pins, wanted

HELP = """List the images that a deployment pulls, or pin them: look each tag's digest up.

`pin` asks the registries, or the mirror of the settings, and writes infra/pins.toml; commit that.
A deployment takes no image without a digest.

\b
Examples:
  nearfar images
  nearfar images pin
  nearfar images pin --stack dev --json
"""


@click.command("images", help=HELP)
@click.argument("action", type=click.Choice(["list", "pin"]), default="list")
@click.option("--stack", help="Stack whose settings count. Default: the settings' defaults.")
@click.option("--set", "words", multiple=True, metavar="KEY=VALUE", help="Change a setting.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(action: str, stack: str | None, words: tuple[str, ...], as_json: bool) -> int:
    here = checkout.here()
    settings = deployment.settings(here, stack, words)
    path = here.root / "infra" / settings.pins
    try:
        pins = read_pins(path)
        if action == "pin":
            pins |= pinning.resolve(settings.parts, settings.mirror, console.say)
            pinning.write(path, pins, datetime.now(UTC).date().isoformat())
    except InfraError as error:
        raise _ours(error) from error
    images = {image.tagged: pins.get(image.tagged) for image in wanted(settings.parts)}
    if as_json:
        console.result_json({"pins": str(path), "images": images})
    else:
        for name, digest in images.items():
            console.result(f"{name:<64} {digest or 'no digest'}")
    return 0 if all(images.values()) else 1


def _ours(error: InfraError) -> NearfarError:
    kind = Missing if error.exit_code == Missing.exit_code else NearfarError
    return kind(error.message, error.next_step)
