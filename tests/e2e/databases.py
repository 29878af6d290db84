"""Real databases for tests: each is a server in its own directory, reached by a socket
there, run without privileges, stopped by its own process id."""
import glob
import os
import pwd
import shutil
import subprocess
import tempfile

from harness import PATIENCE, until

SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class Database:
    user = None

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="tenure-db-")
        self.as_user = []
        if os.geteuid() == 0:  # a database refuses to run as root
            owner = pwd.getpwnam(self.user)
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            os.chmod(self.directory, 0o755)
            self.as_user = ["setpriv", "--reuid=" + self.user, "--regid=%d" % owner.pw_gid,
                            "--clear-groups"]
        self.log = open(self.path("log"), "ab")
        try:
            self.start()
            until(self.is_ready, "the database is ready")
        except BaseException:
            with open(self.log.name, encoding="utf-8", errors="replace") as log:
                print(log.read()[-3000:])
            self.remove()
            raise

    def path(self, name):
        return os.path.join(self.directory, name)

    def surroundings(self):
        """The database's user can write in no other directory."""
        return {**os.environ, "PATH": SBIN, "TMPDIR": self.directory}

    def once(self, *command):
        subprocess.run([*self.as_user, *command], check=True, timeout=2 * PATIENCE, stdout=self.log,
                       stderr=self.log, cwd=self.directory, env=self.surroundings())

    def begin(self, *command):
        self.process = subprocess.Popen([*self.as_user, *command], stdout=self.log, stderr=self.log,
                                        cwd=self.directory, env=self.surroundings())

    def is_ready(self):
        assert self.process.poll() is None, "it has ended"
        return subprocess.run(self.client, input=b"SELECT 1;", check=False, timeout=PATIENCE,
                              env={**os.environ, **self.environment}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def run(self, sql):
        done = subprocess.run(self.client, input=sql.encode(), check=False, timeout=PATIENCE,
                              env={**os.environ, **self.environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode()

    def remove(self):
        process = getattr(self, "process", None)
        if process is not None and process.poll() is None:
            process.send_signal(self.stop_signal)
            process.wait(PATIENCE)
        self.log.close()
        shutil.rmtree(self.directory)


class MariaDB(Database):
    user = "mysql"
    stop_signal = 15
    client = ["mariadb", "--batch"]

    def start(self):
        home = self.path("home")
        os.mkdir(home)
        with open(os.path.join(home, ".my.cnf"), "w", encoding="utf-8") as file:
            file.write("[client]\nuser = root\nsocket = %s\n" % self.path("socket"))
        self.environment = {"HOME": home}
        self.once("mariadb-install-db", "--no-defaults", "--datadir=" + self.path("data"),
                  "--auth-root-authentication-method=normal", "--skip-test-db")
        self.begin("mariadbd", "--no-defaults", "--datadir=" + self.path("data"),
                   "--socket=" + self.path("socket"), "--skip-networking",
                   "--pid-file=" + self.path("pid"), "--innodb-flush-log-at-trx-commit=0")


class PostgreSQL(Database):
    user = "postgres"
    stop_signal = 2  # do not wait for clients
    client = ["psql", "-q", "-v", "ON_ERROR_STOP=1", "--csv"]

    def start(self):
        binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.environment = {"PGHOST": self.directory, "PGUSER": "postgres"}
        self.once(os.path.join(binaries, "initdb"), "-D", self.path("data"), "-A", "trust",
                  "-U", "postgres", "-E", "UTF8", "--no-sync")
        self.begin(os.path.join(binaries, "postgres"), "-D", self.path("data"), "-k", self.directory,
                   "-c", "listen_addresses=", "-c", "fsync=off")
