"""The Debian packages and the image: built as `make deb` and `make image` do, installed in a fresh root by
the commands of the README, run there by the user they name, removed and purged. Needs root, as debootstrap and
chroot do."""
import contextlib
import gzip
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from harness import text_of, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_SECONDS = 900  # a whole build without the compiler's cache, on a slow machine
IMAGE_BYTES_MAX = 40_000_000
IMAGE = "localhost/tenure:" + re.search(r"(?m)^project\(tenure VERSION ([0-9.]+)", text_of(ROOT / "CMakeLists.txt")).group(1)


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], timeout=BUILD_SECONDS, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, "%s: %s" % (" ".join(map(str, command)), done.stdout[-4000:])
    return done.stdout


def mirror():
    """The release and the mirror that this machine installs its packages from."""
    release = run("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME").strip()
    uris = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
               "Codename: " + release).split()
    return release, uris[0]


class Chroot:
    """Programs in a separate directory tree with its own /proc."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.mounted = False
        self.enter = ()

    def mount(self):
        (self.root / "proc").mkdir(exist_ok=True)
        run("mount", "-t", "proc", "proc", self.root / "proc")
        self.mounted = True

    def unmount(self):
        if self.mounted:
            run("umount", self.root / "proc")
            self.mounted = False

    def words(self, user, *command):
        return (*self.enter, "chroot", "--userspec=" + user, str(self.root), *command)

    def run(self, *command, user="0:0"):
        return run(*self.words(user, *command),
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                        "LC_ALL": "C.UTF-8", "RUNLEVEL": "1"})

    @contextlib.contextmanager
    def network(self):
        """A network namespace, whose ports no other program uses."""
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
                                  stdout=subprocess.PIPE)
        try:
            assert holder.stdout.readline() == b"up\n"
            self.enter = ("nsenter", "--net=/proc/%d/ns/net" % holder.pid)
            yield
        finally:
            self.enter = ()
            holder.kill()
            holder.communicate()

    @contextlib.contextmanager
    def serving(self, user, *command):
        """While the server runs; then it must end well."""
        with tempfile.TemporaryFile("w+") as log:
            server = subprocess.Popen(self.words(user, *command), stderr=log)

            def said():
                log.seek(0)
                return log.read()

            def ready():
                assert server.poll() is None, said()
                return "event=ready" in said()
            try:
                until(ready, "the server is ready")
                yield
            finally:
                server.terminate()
                code = server.wait(120)
            assert code == 0, said()

    def serve(self, user, *command):
        """Starts the server, lets it grant a lease, stops it."""
        port_file = "/var/lib/tenure/port"
        with self.serving(user, *command, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--port-file", port_file):
            until((self.root / port_file[1:]).exists, "the port file")
            tool = ("/usr/bin/tenure", "--port", text_of(self.root / port_file[1:]).split()[0])
            self.run(*tool, "pool", "create", "ports", "--range", "30000", "30009", user=user)
            granted = self.run(*tool, "alloc", "ports", "job/42", "--json", user=user)
            assert json.loads(granted)["values"] == ["30000"], granted


SYSTEMCTL = """#!/bin/sh
echo "$@" >> /root/systemctl.log
case $* in
*is-enabled*) echo enabled ;;
*show*) echo ActiveState=active; echo LoadState=loaded; echo UnitFileState=enabled ;;
esac
"""


# What the unit does, for the commands of the runbook. A process that has ended has no program, even if nobody
# has waited for it.
SERVICE = """#!/bin/sh -e
case $1 in
start)
    setpriv --reuid tenure --regid tenure --init-groups %s < /dev/null >> /root/tenured.log 2>&1 &
    echo $! > /run/tenured.pid
    until tenure --socket /var/lib/tenure/tenure.sock ping > /dev/null 2>&1; do
        [ -e /proc/$!/exe ]
        sleep 0.1
    done ;;
stop)
    pid=$(cat /run/tenured.pid)
    kill "$pid"
    while [ -e "/proc/$pid/exe" ]; do sleep 0.1; done ;;
esac
"""


def runbook(title):
    """The blocks of commands under a title of the runbook."""
    (section,) = re.findall(r"(?ms)^##+ %s$(.*?)^##" % title, text_of(ROOT / "docs/operations.md"))
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", section)


def upgrade():
    """The command of the runbook."""
    (line,) = re.findall(r"(?m)^apt install .*$", runbook("Upgrade")[0])
    return line


def commands():
    """Those of the README for a fresh machine."""
    (block,) = re.findall(r"(?ms)^```sh\n(apt install .*?)^```$", text_of(ROOT / "README.md"))
    return block.splitlines()


@unittest.skipUnless(os.geteuid() == 0, "needs root: debootstrap and chroot")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-packages-"))
        cls.debs = cls.dir / "debs"
        run("tools/deb.sh", cls.debs, cwd=ROOT)  # runs lintian, too

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def package(self, name):
        (path,) = self.debs.glob(name + "_*.deb")
        return path

    def unpack(self, *names):
        tree = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        for name in names:
            run("dpkg-deb", "-x", self.package(name), tree)
        return tree

    def root(self):
        """A fresh machine with the packages in /root."""
        box = Chroot(self.dir / "root")
        release, uri = mirror()
        box.root.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=2g,mode=755", "tmpfs", box.root)  # dpkg syncs each file
        self.addCleanup(run, "umount", box.root)
        run("debootstrap", "--variant=minbase", release, box.root, uri)
        shutil.copy("/etc/resolv.conf", box.root / "etc/resolv.conf")
        (box.root / "etc/hosts").write_text("127.0.0.1 localhost\n", encoding="ascii")  # as an installed system has
        for path in self.debs.glob("*.deb"):
            shutil.copy(path, box.root / "root")
        box.mount()
        self.addCleanup(box.unmount)
        return box

    def check_files(self, box):
        """All users can verify the server; only the server can read its keys."""
        owner = box.run("stat", "-c", "%U:%G %a", "/etc/tenure", "/etc/tenure/tenured.conf", "/etc/tenure/tls",
                        "/etc/tenure/tls/server-key.pem", "/etc/tenure/tls/ca-key.pem")
        self.assertEqual(owner, "root:tenure 751\nroot:tenure 640\ntenure:tenure 755\ntenure:tenure 600\ntenure:tenure 600\n")
        box.run("cat", "/etc/tenure/tls/ca.pem", user="nobody")
        for path in ("tenured.conf", "tls/server-key.pem"):
            with self.assertRaisesRegex(AssertionError, "Permission denied"):
                box.run("cat", "/etc/tenure/" + path, user="nobody")
        box.run("tenured", "--config", "/etc/tenure/tenured.conf", "--check-config", user="tenure")

    def check_contents(self, box):
        """What man, the shells and the documents refer to."""
        for name in ("tenure.1", "tenured.8"):
            path = box.root / ("usr/share/man/man%s/%s.gz" % (name[-1], name))
            self.assertEqual(gzip.decompress(path.read_bytes()).decode(), text_of(ROOT / "docs/man" / name))
        box.run("bash", "-ec", ". /usr/share/bash-completion/completions/tenure && complete -p tenure")
        self.assertTrue(text_of(box.root / "usr/share/zsh/vendor-completions/_tenure").startswith("#compdef tenure"))
        examples = box.root / "usr/share/doc/tenure/examples"
        for name in ("tenured.conf.example", "prometheus", "grafana", "cluster", "container", "kubernetes"):
            top = ROOT / "packaging" / name
            for path in [top] if top.is_file() else filter(pathlib.Path.is_file, top.rglob("*")):
                self.assertEqual(text_of(examples / path.relative_to(ROOT / "packaging")), text_of(path))
        for path in re.findall(r"/usr/share/doc/tenure/[\w./-]+", text_of(ROOT / "docs/operations.md") +
                               text_of(box.root / "etc/tenure/tenured.conf")):
            self.assertTrue((box.root / path[1:]).exists(), path)
        self.check_confined(box.root / "lib/systemd/system/tenured.service")

    def check_confined(self, unit):
        """In tenths: an exposure of 2.0 at most."""
        run("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)

    def check_backup_and_restore(self, box):
        """The runbook, with the server under its own user: root restores for it, in the shell in which the commands
        of the README were."""
        (export,) = [line for line in commands() if line.startswith("export ")]
        socket = "cd /root\n" + export + "\n" + runbook("Runbook")[0]
        (backup, _), (restore, _) = runbook("Back up"), runbook("Restore")
        program = box.root / "usr/bin/systemctl"
        program.write_text(SERVICE % shlex.join(self.unit(box)), encoding="ascii")
        program.chmod(0o755)
        with box.network():
            box.run("systemctl", "start", "tenured")
            try:
                self.assertRegex(box.run("sh", "-ec", socket + backup), r"(?m)^ok\b")
                said = box.run("sh", "-ec", socket + restore)
            finally:
                box.run("systemctl", "stop", "tenured")
        self.assertRegex(said.partition("restored")[2], r"(?m)^gpus\b")
        self.assertIn("tenured --data /var/lib/tenure, as the user tenure\n", said)
        (lost,) = (box.root / "var/lib").glob("tenure.lost-*")
        shutil.rmtree(lost)
        found = box.run("find", "/var/lib/tenure", "-printf", "%u:%g %m %y\n")
        self.assertEqual(set(found.splitlines()) - {"tenure:tenure 700 d", "tenure:tenure 600 f"}, set(), found)
        program.unlink()

    def newer(self, box):
        """A package of the next version, with another configuration, alone in a directory."""
        tree = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        run("dpkg-deb", "-R", self.package("tenure"), tree)
        for name, old, new in (("DEBIAN/control", "(?m)^Version: .*$", "Version: 99-1"),
                               ("etc/tenure/tenured.conf", "^", "# New.\n")):
            text = re.sub(old, new, text_of(tree / name), count=1)
            (tree / name).write_text(text, encoding="utf-8")
        (box.root / "root/new").mkdir()
        run("dpkg-deb", "-b", "--root-owner-group", tree, box.root / "root/new/tenure_99-1.deb")

    def check_upgrade(self, box):
        """An administrator's changes stay, without a question; the server is restarted."""
        conf = box.root / "etc/tenure/tenured.conf"
        edited = text_of(conf) + "\n[pool mine]\nrange = 1 2\n"
        conf.write_text(edited, encoding="utf-8")
        box.run("chmod", "0600", "/etc/tenure/tenured.conf")  # as some editors do, which write a new file
        self.newer(box)
        (box.root / "run/systemd/system").mkdir(parents=True)
        program = box.root / "usr/bin/systemctl"
        program.write_text(SYSTEMCTL, encoding="ascii")
        program.chmod(0o755)
        box.run("sh", "-ec", "cd /root/new\n" + upgrade())
        self.assertEqual(box.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "tenure"), "99-1 install ok installed")
        self.assertEqual(text_of(conf), edited)
        self.assertTrue(text_of(str(conf) + ".dpkg-dist").startswith("# New."))
        self.assertEqual(box.run("stat", "-c", "%U:%G %a", "/etc/tenure/tenured.conf"), "root:tenure 640\n")
        asked = text_of(box.root / "root/systemctl.log")
        self.assertRegex(asked, r"(?s)daemon-reload.*restart.*tenured\.service")
        with box.network(), box.serving("tenure:tenure", *self.unit(box)):
            said = box.run("tenure", "--socket", "/var/lib/tenure/tenure.sock", "pool", "list")
            self.assertRegex(said, "(?s)gpus.*mine|mine.*gpus")

    def unit(self, box):
        """The command of the unit."""
        text = text_of(box.root / "lib/systemd/system/tenured.service")
        return shlex.split(re.search("(?m)^ExecStart=(.*)$", text).group(1).replace("$TENURED_FLAGS", ""))

    def test_a_fresh_root_installs_runs_removes_and_purges(self):
        box = self.root()
        install, *rest = commands()
        self.assertEqual(len(rest), 4)
        box.run("sh", "-ec", "cd /root\n" + install)
        self.check_files(box)
        self.check_contents(box)
        # What systemd does by StateDirectory=, and then by ExecStart=.
        box.run("install", "-d", "-o", "tenure", "-g", "tenure", "-m", "0700", "/var/lib/tenure")
        with box.network(), box.serving("tenure:tenure", *self.unit(box)):
            said = box.run("sh", "-ec", "\n".join(["cd /root", *rest]))
            self.assertRegex(said, r"(?m)^GPU 0 is ours, under lease 0-\d+$")
            info = box.run("tenure", "--socket", "/var/lib/tenure/tenure.sock", "info")
            self.assertGreaterEqual(int(re.search(r"tls_handshakes\W+(\d+)", info).group(1)), 2)
            with self.assertRaisesRegex(AssertionError, "NOAUTH"):
                box.run("tenure", "pool", "list", user="nobody")
        self.check_backup_and_restore(box)

        box.run("apt-get", "install", "-y", "--no-install-recommends",
                *("/root/" + self.package(name).name for name in ("libtenure0", "libtenure-dev", "python3-tenure")))
        self.assertIn("tenure", box.run("python3", "-c", "import tenure; print(tenure.__name__)"))
        key = (box.root / "etc/tenure/tls/server-key.pem").read_bytes()
        box.run("chmod", "0750", "/etc/tenure")  # as an administrator, or an older package, closed it
        box.run("apt-get", "install", "-y", "--reinstall", "/root/" + self.package("tenure").name)
        self.assertEqual(box.run("stat", "-c", "%a", "/etc/tenure"), "750\n")
        self.assertEqual((box.root / "etc/tenure/tls/server-key.pem").read_bytes(), key)

        self.check_upgrade(box)

        box.run("apt-get", "remove", "-y", "tenure")
        self.assertRegex(text_of(box.root / "root/systemctl.log").rpartition("restart")[2], r"stop.*tenured\.service")
        self.assertFalse((box.root / "usr/bin/tenured").exists())
        self.assertTrue((box.root / "etc/tenure/tenured.conf").exists())
        self.assertNotEqual(os.listdir(box.root / "var/lib/tenure"), [])
        box.run("apt-get", "purge", "-y", "tenure")
        self.assertFalse((box.root / "etc/tenure").exists())
        self.assertFalse((box.root / "var/lib/tenure").exists())

    def test_a_program_builds_against_the_development_package(self):
        tree = self.unpack("libtenure0", "libtenure-dev")
        (pc,) = tree.glob("usr/lib/*/pkgconfig")
        flags = run("pkg-config", "--cflags", "--libs", "tenure",
                    env={**os.environ, "PKG_CONFIG_PATH": str(pc)}).split()
        program = self.dir / "embedded"
        run("cc", "-o", program, ROOT / "examples/embedded.c", *flags)
        said = run(program, cwd=self.dir, env={**os.environ, "LD_LIBRARY_PATH": str(pc.parent)})
        self.assertIn("job/42 has port 30000", said)
        # The program of the README, which is compiled with the library of the clone elsewhere.
        (source,) = re.findall(r"(?ms)^```c\n(.*?)^```$", text_of(ROOT / "README.md"))
        shutil.rmtree(self.dir / "demo-data", ignore_errors=True)
        (self.dir / "demo.c").write_text(source, encoding="utf-8")
        run("cc", self.dir / "demo.c", *flags, "-o", program)
        said = run(program, cwd=self.dir, env={**os.environ, "LD_LIBRARY_PATH": str(pc.parent)})
        self.assertIn("job/42 has port 30000", said)

    def test_the_unit_is_confined(self):
        self.check_confined(ROOT / "packaging/tenured.service")

    def check_name(self, image):
        """Where docker, podman, containerd and skopeo look for it: the name that packaging/ has (deploy_test.py)."""
        (manifest,) = json.loads(text_of(image / "index.json"))["manifests"]
        self.assertEqual(manifest["annotations"], {"org.opencontainers.image.ref.name": IMAGE,
                                                   "io.containerd.image.name": IMAGE})
        with tarfile.open(image.with_suffix(".tar")) as archive:
            (docker,) = json.load(archive.extractfile("manifest.json"))
            self.assertEqual(docker["RepoTags"], [IMAGE])
            config = json.load(archive.extractfile(docker["Config"]))
            layers = [gzip.decompress(archive.extractfile(path).read()) for path in docker["Layers"]]
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers])

    def test_the_image_is_small_and_runs_as_its_own_user(self):
        image = self.dir / "image"
        run("tools/image.py", self.debs, image, cwd=ROOT)
        size = sum(path.stat().st_size for path in image.rglob("*") if path.is_file())
        self.assertLessEqual(size, IMAGE_BYTES_MAX)
        first = (image / "index.json").read_bytes()
        run("tools/image.py", self.debs, image, cwd=ROOT)
        self.assertEqual((image / "index.json").read_bytes(), first)  # the same bytes again

        self.check_name(image)
        bundle = self.dir / "bundle"
        run("umoci", "unpack", "--image", "%s:%s" % (image, IMAGE), bundle)
        process = json.loads(text_of(bundle / "config.json"))["process"]
        self.assertEqual((process["user"]["uid"], process["user"]["gid"]), (10001, 10001))
        box = Chroot(bundle / "rootfs")
        self.assertFalse((box.root / "bin/sh").exists())
        box.mount()
        self.addCleanup(box.unmount)
        box.serve("10001:10001", *process["args"])


if __name__ == "__main__":
    unittest.main()
