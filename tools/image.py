#!/usr/bin/env python3
"""Writes an OCI image of Tenure, without a daemon and without a network.

    tools/image.py DEBS OUT      DEBS: the directory that tools/deb.sh filled

OUT becomes an OCI image layout, and OUT.tar an archive of it for `podman load`, `docker load`, `ctr images import`
and `skopeo copy oci-archive:OUT.tar`. All of them call the image localhost/tenure:VERSION, as the files for containers in
packaging/ do. Each reads the name from a different place:

    podman          the annotation io.containerd.image.name of the index; until 4.0 that of ref.name
    containerd, and docker with its image store
                    io.containerd.image.name, unchanged: it needs the prefix that docker and Kubernetes
                    give to a name without a registry
    docker with its old image store
                    manifest.json, which is in the archive only
    skopeo, umoci   org.opencontainers.image.ref.name, if one of several images is to be chosen

The image holds the programs of the package tenure, the shared libraries they load, taken from the
Debian packages of this machine with their copyright files, and nothing else: no shell, no package
manager. It runs as user 10001. The same packages give the same bytes: names are sorted, and every time
stamp is that of the package's changelog.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

USER = 10001
PROGRAMS = ["usr/bin/tenured", "usr/bin/tenure", "usr/libexec/tenure/tenure-guardian"]
ARCHITECTURES = {"amd64": "amd64", "arm64": "arm64"}


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(program: pathlib.Path) -> list[str]:
    """The paths of the shared libraries that the program loads, the dynamic loader included."""
    found = []
    for line in output_of("ldd", str(program)).splitlines():
        if "not found" in line:
            raise SystemExit(f"image: {program.name} needs a library that is missing: {line.strip()}")
        match = re.search(r"(/\S+) \(0x", line)
        if match:
            found.append(match.group(1))
    return found


def package_of(path: str) -> str:
    """The installed Debian package that owns a file."""
    real = str(pathlib.Path(path).resolve())
    for name in (path, real, real.removeprefix("/usr"), "/usr" + path):
        owner = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if owner.returncode == 0:
            return owner.stdout.split(":")[0]
    raise SystemExit(f"image: no Debian package owns {path}")


def add_libraries(root: pathlib.Path) -> None:
    libraries = sorted({lib for name in PROGRAMS for lib in libraries_of(root / name)})
    for library in libraries:
        # /lib is a link to /usr/lib on Debian; the image has the same link.
        target = root / ("usr" + library if library.startswith("/lib") else library[1:])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, target)
        target.chmod(0o755)
    for package in sorted({package_of(library) for library in libraries}):
        copyright_file = pathlib.Path("/usr/share/doc") / package / "copyright"
        if copyright_file.exists():
            target = root / "usr/share/doc" / package / "copyright"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(copyright_file, target)


def without_tls(config: pathlib.Path) -> None:
    """The package makes a certificate for its machine when it is installed. An image has none: every setting
    of TLS becomes a comment, as an example."""
    lines, tls = [], False
    for line in config.read_text().splitlines():
        if line.startswith("["):
            tls = line == "[tls]"
        lines.append("# " + line if tls and line and not line.startswith("#") else line)
    config.write_text("\n".join(lines) + "\n")


def build_root(package: pathlib.Path, root: pathlib.Path) -> None:
    subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    shutil.rmtree(root / "lib", ignore_errors=True)  # the unit of systemd
    for unused in ("bash-completion", "zsh", "man", "lintian"):
        shutil.rmtree(root / "usr/share" / unused, ignore_errors=True)
    for path in (root / "usr/share/doc/tenure").iterdir():
        if path.name != "copyright":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    without_tls(root / "etc/tenure/tenured.conf")
    add_libraries(root)
    for name in ("lib", "lib64"):
        if (root / "usr" / name).exists():
            (root / name).symlink_to("usr/" + name)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/:/sbin/nologin\n"
        f"tenure:x:{USER}:{USER}:Tenure:/var/lib/tenure:/sbin/nologin\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\ntenure:x:{USER}:\n")
    for name in ("var/lib/tenure", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)


def entry(root: pathlib.Path, path: pathlib.Path, stamp: int) -> tarfile.TarInfo:
    name = str(path.relative_to(root))
    info = tarfile.TarInfo(name)
    info.mtime = stamp
    info.mode = path.lstat().st_mode & 0o7777
    if path.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
    elif path.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    else:
        info.size = path.stat().st_size
    if name == "tmp":
        info.mode = 0o1777
    if name == "var/lib/tenure":
        info.uid, info.gid, info.mode = USER, USER, 0o700
    if name.startswith("etc/tenure"):
        info.gid = USER
    return info


def layer_of(root: pathlib.Path, stamp: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            info = entry(root, path, stamp)
            if info.isreg():
                with path.open("rb") as file:
                    archive.addfile(info, file)
            else:
                archive.addfile(info)
    return buffer.getvalue()


class Layout:
    """An OCI image layout: blobs by their SHA-256, and an index."""

    def __init__(self, out: pathlib.Path) -> None:
        shutil.rmtree(out, ignore_errors=True)
        self.out = out
        self.blobs = out / "blobs/sha256"
        self.blobs.mkdir(parents=True)

    def blob(self, kind: str, data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (self.blobs / digest).write_bytes(data)
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(data),
        }

    def document(self, kind: str, value: object) -> dict[str, object]:
        return self.blob(kind, json.dumps(value, sort_keys=True, indent=1).encode() + b"\n")

    def finish(self, manifest: dict[str, object], name: str) -> None:
        manifest["annotations"] = {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name,
        }
        index = {"schemaVersion": 2, "manifests": [manifest]}
        (self.out / "index.json").write_text(json.dumps(index, sort_keys=True, indent=1) + "\n")
        (self.out / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}\n')


def write_image(root: pathlib.Path, out: pathlib.Path, version: str, arch: str, stamp: int) -> bytes:
    """Returns the manifest.json of docker's archives."""
    created = output_of("date", "-u", "-d", f"@{stamp}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    layer = layer_of(root, stamp)
    layout = Layout(out)
    packed = layout.blob("layer.v1.tar+gzip", gzip.compress(layer, 9, mtime=0))
    config = layout.document(
        "config.v1+json",
        {
            "created": created,
            "architecture": ARCHITECTURES.get(arch, arch),
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "Entrypoint": ["/usr/bin/tenured"],
                "Cmd": ["--config", "/etc/tenure/tenured.conf", "--data", "/var/lib/tenure"],
                "Env": ["PATH=/usr/bin"],
                "WorkingDir": "/var/lib/tenure",
                "Volumes": {"/var/lib/tenure": {}},
                "ExposedPorts": {"7411/tcp": {}, "7412/tcp": {}},
                "StopSignal": "SIGTERM",
                "Labels": {
                    "org.opencontainers.image.title": "tenure",
                    "org.opencontainers.image.version": version,
                    "org.opencontainers.image.licenses": "Apache-2.0",
                },
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()],
            },
            "history": [{"created": created, "created_by": "tools/image.py"}],
        },
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [packed],
    }
    # Not the name of a registry, so nothing asks one for the image.
    name = "localhost/tenure:" + version.rpartition("-")[0]  # without the revision of the package
    layout.finish(layout.document("manifest.v1+json", manifest), name)
    paths = ["blobs/" + str(blob["digest"]).replace(":", "/") for blob in (config, packed)]
    return json.dumps([{"Config": paths[0], "Layers": paths[1:], "RepoTags": [name]}]).encode()


def archive_of(out: pathlib.Path, docker: bytes, stamp: int) -> pathlib.Path:
    archive_path = out.with_suffix(".tar")
    with tarfile.open(archive_path, mode="w") as archive:
        for path in sorted(out.rglob("*")):
            archive.addfile(entry(out, path, stamp), path.open("rb") if path.is_file() else None)
        info = tarfile.TarInfo("manifest.json")
        info.mode, info.mtime, info.size = 0o644, stamp, len(docker)
        archive.addfile(info, io.BytesIO(docker))
    return archive_path


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: tools/image.py DEBS OUT")
    debs, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    packages = sorted(debs.glob("tenure_*.deb"))
    if len(packages) != 1:
        raise SystemExit(f"image: {debs} has {len(packages)} packages tenure_*.deb; run `make deb`")
    version, arch = output_of("dpkg-deb", "-W", "--showformat", "${Version} ${Architecture}",
                              str(packages[0])).split()
    changelog = pathlib.Path("packaging/debian/changelog")
    stamp = int(output_of("dpkg-parsechangelog", "-l", str(changelog), "-S", "Timestamp"))
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / "root"
        root.mkdir()
        build_root(packages[0], root)
        docker = write_image(root, out, version, arch, stamp)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: an OCI image layout of {size / 1e6:.1f} MB; {archive_of(out, docker, stamp)}: its archive")


if __name__ == "__main__":
    main()
