"""The Kubernetes provider's source, made to fit the engine's newer SDK.

The newest version of the module that is to be had is older than the engine, and one type of the
SDK has become a pointer since. In one module with the engine everything that both need is compiled
once, so the source is copied and that one place is changed. Besides, the components that read YAML
inside the provider are taken out: nothing here uses them, and they alone bring in a type for every
kind of every version of Kubernetes, minutes of compiling and 3 GB of memory.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from . import golang

MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
MAIN = "pulumi-resource-kubernetes"
_YAML = "pkg/provider/yaml/v2/yaml.go"
_SDK = "github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes"
_ARGUMENTS = "ctx, apiVersion, kind, resourceName, kubernetes.UntypedArgs(obj.Object), resourceOpts..."
_GONE = 'pulumi.CustomResource(nil), fmt.Errorf("this build has no components for YAML")'
# (file, what stands there, what must stand there)
CHANGES = (
    ("pkg/gen/schema.go", "Provider: pschema.ResourceSpec{", "Provider: &pschema.ResourceSpec{"),
    (_YAML, f'\t"{_SDK}"\n', ""),
    (_YAML, f'\tyamlv2 "{_SDK}/yaml/v2"\n', ""),
    (_YAML, f"yamlv2.RegisterResource({_ARGUMENTS})", _GONE),
)
_EMBEDDED = ("schema.json", "terraform-mapping.json")


def lay(go: Path, env: dict[str, str], source: Path) -> None:
    """Put the provider's source below `source`, and what its main embeds beside that main."""
    copy = source / "provider"
    shutil.copytree(golang.module_folder(go, MODULE, env, source), copy)
    for path in (copy, *copy.rglob("*")):  # the module cache is read-only
        path.chmod(path.stat().st_mode | 0o200)
    for name, old, new in CHANGES:
        text = (copy / name).read_text()
        if text.count(old) != 1:
            raise RuntimeError(f"{name} of {MODULE} is not what it was: once {old!r}")
        (copy / name).write_text(text.replace(old, new))
    for each in _EMBEDDED:
        shutil.copyfile(copy / "cmd" / MAIN / each, source / MAIN / each)
    argv = [str(go), "mod", "edit", f"-replace={MODULE}=./provider"]
    subprocess.run(argv, env=env, cwd=source, check=True)
