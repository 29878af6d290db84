"""The Debian packages and the image: built as `make deb` and `make image` do, installed in a fresh root,
run there by the user they name, removed and purged. Needs root, as debootstrap and chroot do."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import text_of, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_SECONDS = 900  # a whole build without the compiler's cache, on a slow machine
IMAGE_BYTES_MAX = 40_000_000


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
    """Programs in a directory tree of their own, with its own /proc."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.mounted = False

    def mount(self):
        (self.root / "proc").mkdir(exist_ok=True)
        run("mount", "-t", "proc", "proc", self.root / "proc")
        self.mounted = True

    def unmount(self):
        if self.mounted:
            run("umount", self.root / "proc")
            self.mounted = False

    def run(self, *command, user="0:0"):
        return run("chroot", "--userspec=" + user, self.root, *command,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                        "LC_ALL": "C.UTF-8", "RUNLEVEL": "1"})

    def serve(self, user, *command):
        """Starts the server, lets it grant a lease, stops it; returns what it logged."""
        with tempfile.TemporaryFile("w+") as log:
            server = subprocess.Popen(["chroot", "--userspec=" + user, str(self.root), *command,
                                       "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                                       "--port-file", "/var/lib/tenure/port"], stderr=log)
            try:
                port_file = self.root / "var/lib/tenure/port"

                def ready():
                    log.seek(0)
                    assert server.poll() is None, log.read()
                    return port_file.exists()
                until(ready, "the port file")
                port = text_of(port_file).split()[0]
                tool = ("/usr/bin/tenure", "--port", port)
                self.run(*tool, "pool", "create", "ports", "--range", "30000", "30009", user=user)
                granted = self.run(*tool, "alloc", "ports", "job/42", "--json", user=user)
                assert json.loads(granted)["values"] == ["30000"], granted
            finally:
                server.terminate()
                code = server.wait(120)
            log.seek(0)
            said = log.read()
            assert code == 0, said
            return said


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

    def test_a_fresh_root_installs_runs_removes_and_purges(self):
        box = Chroot(self.dir / "root")
        release, uri = mirror()
        run("debootstrap", "--variant=minbase", release, box.root, uri)
        shutil.copy("/etc/resolv.conf", box.root / "etc/resolv.conf")
        (box.root / "debs").mkdir()
        for name in ("tenure", "libtenure0", "libtenure-dev", "python3-tenure"):
            shutil.copy(self.package(name), box.root / "debs")
        box.mount()
        self.addCleanup(box.unmount)
        box.run("apt-get", "install", "-y", "--no-install-recommends",
                *("/debs/" + path.name for path in (box.root / "debs").iterdir()))

        owner = box.run("stat", "-c", "%U:%G %a", "/etc/tenure", "/etc/tenure/tenured.conf")
        self.assertEqual(owner, "root:tenure 750\nroot:tenure 640\n")
        box.run("tenured", "--config", "/etc/tenure/tenured.conf", "--check-config", user="tenure")
        self.assertIn("tenure", box.run("python3", "-c", "import tenure; print(tenure.__name__)"))
        # What systemd does by StateDirectory=
        box.run("install", "-d", "-o", "tenure", "-g", "tenure", "-m", "0700", "/var/lib/tenure")
        box.serve("tenure:tenure", "/usr/bin/tenured", "--config", "/etc/tenure/tenured.conf",
                  "--data", "/var/lib/tenure")

        box.run("apt-get", "remove", "-y", "tenure")
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

    def test_the_unit_is_confined(self):
        # In tenths: an exposure of 2.0 at most.
        run("systemd-analyze", "security", "--offline=true", "--threshold=20",
            ROOT / "packaging/tenured.service")

    def test_the_image_is_small_and_runs_as_its_own_user(self):
        image = self.dir / "image"
        run("tools/image.py", self.debs, image, cwd=ROOT)
        size = sum(path.stat().st_size for path in image.rglob("*") if path.is_file())
        self.assertLessEqual(size, IMAGE_BYTES_MAX)
        first = (image / "index.json").read_bytes()
        run("tools/image.py", self.debs, image, cwd=ROOT)
        self.assertEqual((image / "index.json").read_bytes(), first)  # the same bytes again

        bundle = self.dir / "bundle"
        run("umoci", "unpack", "--image", "%s:latest" % image, bundle)
        process = json.loads(text_of(bundle / "config.json"))["process"]
        self.assertEqual((process["user"]["uid"], process["user"]["gid"]), (10001, 10001))
        box = Chroot(bundle / "rootfs")
        self.assertFalse((box.root / "bin/sh").exists())
        box.mount()
        self.addCleanup(box.unmount)
        box.serve("10001:10001", *process["args"])


if __name__ == "__main__":
    unittest.main()
