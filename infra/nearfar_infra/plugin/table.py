"""The kinds of resources that the plugin has: type token → kind."""

from __future__ import annotations

from collections.abc import Mapping

from nearfar_infra.plugin.akamai_app import AkamaiApp
from nearfar_infra.plugin.api_key import ApiKey
from nearfar_infra.plugin.edge_image import EdgeImage
from nearfar_infra.plugin.firewalls_attached import FirewallsAttached
from nearfar_infra.plugin.first_answer import FirstAnswer
from nearfar_infra.plugin.kinds import Kind
from nearfar_infra.plugin.random_secret import RandomSecret
from nearfar_infra.plugin.spin_artifact import SpinArtifact
from nearfar_infra.plugin.volumes_gone import VolumesGone

KINDS: Mapping[str, Kind] = {
    "nearfar:index:AkamaiApp": AkamaiApp(),
    "nearfar:index:ApiKey": ApiKey(),
    "nearfar:index:EdgeImage": EdgeImage(),
    "nearfar:index:FirewallsAttached": FirewallsAttached(),
    "nearfar:index:FirstAnswer": FirstAnswer(),
    "nearfar:index:RandomSecret": RandomSecret(),
    "nearfar:index:SpinArtifact": SpinArtifact(),
    "nearfar:index:VolumesGone": VolumesGone(),
}
