"""Two modules whose source is changed in a few places, so that everything compiles together.

In one module with the engine and the control plane, what all of them need is compiled once. The
newest Kubernetes provider that is to be had is older than the engine, and one type of the SDK has
become a pointer since; kwok names a constant that Kubernetes 1.35 has moved. Besides, the
components that read YAML inside the provider are taken out: nothing here uses them, and they alone
bring in a type for every kind of every version of Kubernetes, minutes of compiling and 3 GB.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import golang


@dataclass(frozen=True, slots=True)
class Patch:
    """A module that is copied; `changes` are (file, what stands there, what must stand there)."""

    module: str
    changes: tuple[tuple[str, str, str], ...]

    @property
    def folder(self) -> str:
        """Where the copy lies, below the build's source."""
        return self.module.partition("/")[2].replace("/", "-")

    def text(self, name: str, text: str) -> str:
        """Return one file's text with its changes; each must stand there as it is known."""
        for file, old, new in self.changes:
            if file == name and old not in text:
                raise RuntimeError(f"{name} of {self.module} is not what it was: {old!r}")
            text = text.replace(old, new) if file == name else text
        return text


_YAML = "pkg/provider/yaml/v2/yaml.go"
_SDK = "github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes"
_ARGUMENTS = "kubernetes.UntypedArgs(obj.Object), resourceOpts..."
_GONE = 'pulumi.CustomResource(nil), fmt.Errorf("this build has no components for YAML")'
_KEY = '"kubernetes.io/initial-events-list-blueprint"'

PROVIDER = Patch(
    "github.com/pulumi/pulumi-kubernetes/provider/v4",
    (
        (
            "pkg/gen/schema.go",
            "Provider: pschema.ResourceSpec{",
            "Provider: &pschema.ResourceSpec{",
        ),
        (_YAML, f'\t"{_SDK}"\n', ""),
        (_YAML, f'\tyamlv2 "{_SDK}/yaml/v2"\n', ""),
        (
            _YAML,
            f"yamlv2.RegisterResource(ctx, apiVersion, kind, resourceName, {_ARGUMENTS})",
            _GONE,
        ),
    ),
)
KWOK = Patch(
    "sigs.k8s.io/kwok",
    (("pkg/utils/informer/informer.go", "metav1.InitialEventsListBlueprintAnnotationKey", _KEY),),
)
ALL = (PROVIDER, KWOK)

MAIN = "pulumi-resource-kubernetes"
_EMBEDDED = ("schema.json", "terraform-mapping.json")


def lay(go: Path, env: dict[str, str], source: Path) -> None:
    """Put the changed copies below `source`, and what the provider's main embeds beside it."""
    for patch in ALL:
        copy = source / patch.folder
        shutil.copytree(golang.module_folder(go, patch.module, env, source), copy)
        for path in (copy, *copy.rglob("*")):  # the module cache is read-only
            path.chmod(path.stat().st_mode | 0o200)
        for name in {file for file, _, _ in patch.changes}:
            path = copy / name
            path.write_text(patch.text(name, path.read_text()))
        replacing = f"-replace={patch.module}=./{patch.folder}"
        subprocess.run([str(go), "mod", "edit", replacing], env=env, cwd=source, check=True)
    for each in _EMBEDDED:
        shutil.copyfile(source / PROVIDER.folder / "cmd" / MAIN / each, source / MAIN / each)
