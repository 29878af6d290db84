"""Helpers of the tests of sensors: a server with short times, sensors of tests/lib/sensor_dummy.c, and
ways to see what really runs."""
import http.client
import json
import os
import tempfile
import unittest
import urllib.request

from harness import BUILD, PATIENCE, Server, pairs, text_of, until

DUMMY = os.environ.get("SENSOR_TEST_DUMMY", os.path.join(BUILD, "tests", "sensor_dummy"))
# With this proof, the pids that dummies write are those that the tests see. sensor_proof_test.py tests all proofs.
os.environ.setdefault("TENURE_SENSOR_CONTAINMENT", "none")
# Short enough for tests, long enough to see that the server waits.
TERMS = {"settle_seconds": 0.1, "stop_seconds": 60, "backoff_seconds": 0.05,
         "backoff_max_seconds": 0.2, "stable_seconds": 3600}


def processes(pid):
    """The process itself, if it exists and is no zombie: its state in /proc."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] != b"Z"
    except OSError:
        return False


def with_variable(name, value):
    """The pids of all processes with this variable in their environment that we may see, as their user or root."""
    wanted = ("%s=%s" % (name, value)).encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/environ" % entry, "rb") as file:
                    if wanted in file.read().split(b"\0") and processes(int(entry)):
                        found.append(int(entry))
            except OSError:
                pass  # it has ended, or is not ours
    return found


def call(server, method, path, body=None, token=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE)
    headers = {} if token is None else {"Authorization": "Bearer " + token}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text)


def metrics(server):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics?pools=no" % server.http_port,
                                timeout=PATIENCE) as answer:
        return answer.read().decode()


def totals(server):
    """The metrics about sensors, by name and labels."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in metrics(server).splitlines() if line.startswith("tenure_sensor")}


class SensorCase(unittest.TestCase):
    """A server for each test. Everything that its sensors start has MARK in its environment."""
    flags = ()
    keep = False  # whether a server that is started again has the same ports

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tenure-e2e-")
        self.mark = os.path.basename(self.directory)
        self.server = Server(self.directory, *self.flags, keep=self.keep)
        self.r = self.server.local()
        self.addCleanup(self.leave)

    def leave(self):
        """Every remaining process of the test must end with the server."""
        try:
            self.r.close()
            if self.server.process.poll() is None:
                code = self.server.stop()
                self.assertEqual(code, 0, text_of(self.server.log.name))
            until(lambda: not self.ours(), "nothing is left of any sensor")
        finally:
            for pid in self.ours():
                os.kill(pid, 9)
            self.server.own = True
            self.server.remove()

    def do(self, *words):
        return self.r.execute_command(*words)

    def again(self, number):
        """Ends the server with this signal and restarts it."""
        self.r.close()
        self.server.stop(number)
        self.server.start()
        self.r = self.server.local()

    def path(self, name):
        return os.path.join(self.directory, name)

    def ours(self):
        return with_variable("SENSOR_MARK", self.mark)

    def describe(self, *command, **terms):
        env = dict(terms.pop("env", {}), SENSOR_MARK=self.mark, SENSOR_DUMMY_PIDS=self.path("pids"))
        return json.dumps(dict(TERMS, command=[str(word) for word in command], env=env, **terms))

    def sensor(self, ref, *command, trigger=None, **terms):
        self.do("SENSOR", "SET", ref, trigger or ref + ".trigger",
                self.describe(*(command or (DUMMY, "obey")), **terms))
        return ref

    def want(self, ref, rule=None, wanted=True):
        """Sets or disables a rule for the sensor: one of its own unless `rule` is given."""
        rule = rule or "rule." + ref
        if wanted:
            self.do("RULE", "SET", rule, ref + ".trigger")
        else:
            self.do("RULE", "DISABLE", rule)

    def status(self, ref):
        status = pairs(self.do("SENSOR", "STATUS", ref))
        return {name: value for name, value in status.items() if value is not None}

    def reaches(self, ref, state):
        """Waits until the sensor is in this state; returns its status."""
        def there():
            status = self.status(ref)
            return status if status["state"] == state else None
        try:
            return until(there, "%s is %s" % (ref, state))
        except AssertionError as failure:
            raise AssertionError("%s; it is %s\n%s" % (failure, self.status(ref),
                                                       text_of(self.server.log.name))) from None

    def runs(self, ref):
        """Starts the sensor by a rule of its own; returns its status."""
        self.want(ref)
        return self.reaches(ref, "running")

    def is_as_it_stays(self, pid):
        """Waits until the dummy handles or ignores signals as configured."""
        path = self.path("pids")
        until(lambda: os.path.exists(path) and str(pid) in text_of(path).split(), "%d is there" % pid)

    def token(self, ref):
        with open(os.path.join(self.server.data, "data", "sensors", ref, "token"),
                  encoding="ascii") as file:
            return file.read().strip()

    def live(self, token):
        """True, or the reason why the token is not valid."""
        state = pairs(self.do("TOKEN", "INTROSPECT", token))
        return True if state["active"] == 1 else state["reason"]

    def emit(self, token, trigger, payload=None):
        return call(self.server, "POST", "/v1/events/emit",
                    {"trigger_type": trigger, "payload": payload or {}}, token)

    def events(self, *kinds):
        """The events of these kinds, oldest first."""
        found, after = [], None
        while True:
            page = pairs(self.do("EVENTS", "COUNT", 1000, *(("AFTER", after) if after else ())))
            events = [pairs(event) for event in page["events"]]
            found += [event for event in events if event["kind"] in kinds]
            if not events:
                return found
            after = page["next"]

    def lines(self, event):
        return [line for line in text_of(self.server.log.name).splitlines()
                if "event=%s " % event in line + " "]
