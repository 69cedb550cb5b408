import re,subprocess,pathlib
mod=pathlib.Path(subprocess.check_output(['go','env','GOMODCACHE'],text=True).strip())/'cache/download/k8s.io/kubernetes/@v/v1.35.4.mod'
subprocess.run(['go','mod','download','k8s.io/kubernetes@v1.35.4'])
t=mod.read_text()
names=sorted(set(re.findall(r'^\s*(k8s\.io/[\w-]+) => ./staging|^\s*(k8s\.io/[\w-]+) v0\.0\.0',t,re.M)))
names=sorted({a or b for a,b in names}-{"k8s.io/kube-openapi","k8s.io/utils"})
print(len(names))
s="module nearfar.test/engine\n\ngo 1.26.6\n\nreplace (\n"+"".join(f"\t{n} => {n} v0.35.4\n" for n in names)+")\n"
pathlib.Path('go.mod').write_text(s)
