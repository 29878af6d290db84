"""A real RabbitMQ for tests: a node of its own in a directory of its own, on free ports of the
loopback, with an epmd of its own, run without privileges, stopped by its own process id."""
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

import pika

from harness import PATIENCE, port_of, reserve, until

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
USER = "rabbitmq"


class Broker:
    """Must be started, and removed at the end. `tls` is a directory with ca.pem, server.pem and
    server.key."""

    def __init__(self, tls=None):
        self.directory = tempfile.mkdtemp(prefix="tenure-broker-")
        # Held while the broker is down: otherwise other sockets may get these ports, even the local ends of
        # connections to the broker.
        self.held = [reserve() for _ in range(4)]
        self.port, self.tls_port, self.dist_port, self.epmd_port = map(port_of, self.held)
        self.as_user = []
        self.process = None
        os.mkdir(self.path("home"))
        with open(self.path("rabbitmq.conf"), "w", encoding="utf-8") as file:
            file.write(self.settings(tls))
        with open(self.path("plugins"), "w", encoding="utf-8") as file:
            file.write("[].\n")
        if tls:
            for name in ("ca.pem", "server.pem", "server.key"):
                shutil.copy(os.path.join(tls, name), self.directory)
        if os.geteuid() == 0:
            owner = pwd.getpwnam(USER)
            for root, directories, files in os.walk(self.directory):
                for name in (".", *directories, *files):
                    os.chown(os.path.join(root, name), owner.pw_uid, owner.pw_gid)
            os.chmod(self.directory, 0o755)
            self.as_user = ["setpriv", "--reuid=" + USER, "--regid=%d" % owner.pw_gid,
                            "--clear-groups"]
        self.log = open(self.path("log"), "ab")
        # Otherwise the first program that needs an epmd would start one, and nothing would stop it.
        self.epmd = self.begin("epmd", "-address", "127.0.0.1", "-port", str(self.epmd_port))

    def settings(self, tls):
        lines = ["listeners.tcp.1 = 127.0.0.1:%d" % self.port, "log.console = true",
                 "log.console.level = warning", "log.file = false",
                 "disk_free_limit.absolute = 1MB"]
        if tls:
            lines += ["listeners.ssl.1 = 127.0.0.1:%d" % self.tls_port,
                      "ssl_options.cacertfile = " + self.path("ca.pem"),
                      "ssl_options.certfile = " + self.path("server.pem"),
                      "ssl_options.keyfile = " + self.path("server.key"),
                      "ssl_options.verify = verify_peer",
                      "ssl_options.fail_if_no_peer_cert = true"]
        return "\n".join(lines) + "\n"

    def path(self, name):
        return os.path.join(self.directory, name)

    def begin(self, *command):
        environment = {
            **os.environ, "HOME": self.path("home"), "TMPDIR": self.directory,
            "PATH": os.environ["PATH"] + ":/usr/sbin",
            "ERL_EPMD_PORT": str(self.epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "tenure-%d@localhost" % self.port,
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
            "RABBITMQ_MNESIA_BASE": self.path("mnesia"), "RABBITMQ_LOG_BASE": self.path("logs"),
            "RABBITMQ_CONFIG_FILE": self.path("rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": self.path("no-environment"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": self.path("no-advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.path("plugins"),
            # The broker replaces the shell that starts it, and so has the shell's process id.
            "RABBITMQ_ALLOW_INPUT": "1",
        }
        return subprocess.Popen([*self.as_user, *command], stdin=subprocess.DEVNULL, cwd=self.directory,
                                stdout=self.log, stderr=self.log, env=environment)

    def start(self):
        self.process = self.begin(SERVER, "-noinput")
        try:
            until(self.is_ready, "the broker is ready")
        except BaseException:
            with open(self.log.name, encoding="utf-8", errors="replace") as log:
                print(log.read()[-3000:])
            raise

    def connect(self):
        return pika.BlockingConnection(pika.ConnectionParameters(
            host="127.0.0.1", port=self.port, heartbeat=0, socket_timeout=PATIENCE,
            stack_timeout=PATIENCE))

    def is_ready(self):
        assert self.process.poll() is None, "it has ended"
        try:
            self.connect().close()
            return True
        except (pika.exceptions.AMQPError, OSError):
            return False

    def stop(self, number=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)

    def remove(self):
        self.stop()
        self.epmd.terminate()
        self.epmd.wait(PATIENCE)
        self.log.close()
        for s in self.held:
            s.close()
        shutil.rmtree(self.directory)


class Client:
    """A publisher and reader that waits for the broker's confirmation."""

    def __init__(self, broker):
        self.connection = broker.connect()
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def close(self):
        self.connection.close()

    def publish(self, key, body, message_id=None, exchange="attune.events", **properties):
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        self.channel.basic_publish(exchange, key, body, mandatory=True, properties=pika.BasicProperties(
            message_id=message_id, delivery_mode=2, content_type="application/json", **properties))

    def count(self, queue):
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def get(self, queue):
        return self.channel.basic_get(queue, auto_ack=True)
