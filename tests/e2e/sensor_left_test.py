"""Remains of a server that was killed, or that runs no sensors: no valid token, and no output of a missing sensor."""
import os
import shutil
import signal
import subprocess
import unittest

from harness import pairs, until
from sensors import SensorCase


class Left(SensorCase):
    def restart(self, number, *flags):
        self.r.close()
        self.server.stop(number)
        self.server.flags = flags
        self.server.start()
        self.r = self.server.client()

    def outputs(self):
        return sorted(os.listdir(self.under()))

    def under(self, *names):
        return os.path.join(self.server.data, "data", "sensors", *names)

    def leases(self):
        return pairs(self.do("LEASES"))["leases"]

    def size(self):
        return pairs(self.do("POOL", "INFO", "sensors"))["size"]

    def test_a_server_without_sensors_ends_the_runs_of_the_one_before(self):
        self.sensor("a")
        first = self.runs("a")
        token = self.token("a")
        self.restart(signal.SIGKILL, "--sensors", "off")
        until(lambda: self.live(token) is not True, "the token is dead")
        until(lambda: self.leases() == [], "the lease is reclaimed")
        self.assertEqual(self.ours(), [])
        status = self.status("a")
        self.assertEqual((status["wanted"], status["supervised"]), (1, 0))
        self.assertEqual(self.reaches("a", "stopped")["starts"], 0)
        self.restart(signal.SIGTERM)
        self.assertNotEqual(self.reaches("a", "running")["lease"], first["lease"])
        self.assertNotEqual(self.live(token), True)

    @staticmethod
    def born_as(pid):
        """A process of this test with that unused pid; None: another process got it."""
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
                file.write(str(pid - 1))
        except OSError as error:
            raise unittest.SkipTest("only root can choose a pid") from error
        child = subprocess.Popen(["sleep", "600"])
        if child.pid == pid:
            return child
        child.kill()
        child.wait()
        return None

    def test_processes_that_have_the_pids_of_a_dead_run_are_left_alone(self):
        self.sensor("a")
        first = self.runs("a")
        with open("/proc/%d/stat" % first["pid"], "rb") as file:
            guardian = int(file.read().rsplit(b")", 1)[1].split()[1])
        self.r.close()
        os.kill(guardian, signal.SIGSTOP)  # else it would remove the record of the run
        self.server.stop(signal.SIGKILL)
        for pid in (guardian, first["pid"]):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not os.path.exists("/proc/%d" % guardian) and
              not os.path.exists("/proc/%d" % first["pid"]), "both pids are free")
        others = []
        for pid in (guardian, first["pid"]):
            others.append(until(lambda pid=pid: self.born_as(pid), "a process with the pid %d" % pid))
            self.addCleanup(others[-1].wait)
            self.addCleanup(others[-1].kill)
        self.server.start()
        self.r = self.server.local()
        until(lambda: self.status("a")["state"] in ("running", "stopping"), "the record was judged")
        if self.status("a")["state"] == "stopping":  # nothing proves that all of the run is dead
            self.do("SENSOR", "RESET", "a")
        self.assertNotEqual(self.reaches("a", "running")["lease"], first["lease"])
        self.assertEqual([other.poll() for other in others], [None, None])

    def test_a_server_that_cannot_supervise_still_revokes(self):
        self.sensor("a")
        self.runs("a")
        token = self.token("a")
        self.r.close()
        self.server.stop(signal.SIGKILL)
        os.rename(self.under(), self.path("kept"))
        with open(self.under(), "w", encoding="ascii"):
            pass  # where a directory should be
        self.server.start()
        self.r = self.server.client()
        until(lambda: self.live(token) is not True, "the token is dead")
        self.assertEqual(len(self.leases()), 1)  # nobody has proven its run dead
        self.do("SENSOR", "DELETE", "a")
        self.r.close()
        self.assertEqual(self.server.stop(), 0)
        os.unlink(self.under())
        os.rename(self.path("kept"), self.under())
        self.server.start()
        self.r = self.server.client()
        until(lambda: self.leases() == [], "the lease is reclaimed")
        until(lambda: self.outputs() == [], "the output is gone")
        until(lambda: self.size() == 0, "its name is out of the pool")

    def test_output_of_a_sensor_deleted_without_a_supervisor_goes_with_it(self):
        self.sensor("a")
        self.runs("a")
        self.want("a", wanted=False)
        self.reaches("a", "stopped")
        self.restart(signal.SIGTERM, "--sensors", "off")
        self.assertEqual(self.outputs(), ["a"])
        self.do("SENSOR", "DELETE", "a")
        until(lambda: self.outputs() == [], "the output is gone")
        until(lambda: self.size() == 0, "its name is out of the pool")

    def test_output_of_a_sensor_that_is_not_there_is_removed_at_the_start(self):
        """As when the server is killed between the delete and the removal, or in a write."""
        self.sensor("a")
        self.runs("a")
        self.want("a", wanted=False)
        self.reaches("a", "stopped")
        self.r.close()
        self.server.stop(signal.SIGKILL)
        for name in ("gone", "%2Ehidden", "some thing", "%61"):
            os.mkdir(self.under(name))
            shutil.copy(self.under("a", "log.1"), self.under(name, "log.1"))
        for name in ("run.new", "token.new"):
            with open(self.under("gone", name), "w", encoding="ascii"):
                pass
        with open(self.under("file"), "w", encoding="ascii"):
            pass
        self.server.start()
        self.r = self.server.client()
        until(lambda: self.outputs() == ["%61", "a", "file", "some thing"],
              "what a sensor would be called is gone, the rest is there")

    def logs(self, *words):
        return pairs(self.do("SENSOR", "LOGS", "a", *words))

    def test_who_follows_the_output_of_a_sensor_that_is_made_anew_hears_all_of_the_new_one(self):
        self.sensor("a", "/bin/sh", "-c", "echo the first one says a lot; exec sleep 1000")
        self.runs("a")
        until(lambda: self.logs()["output"], "it has said something")
        position = self.logs()["next"]
        self.do("SENSOR", "DELETE", "a")
        until(lambda: self.outputs() == [], "the output is gone")
        self.sensor("a", "/bin/sh", "-c", "echo short; exec sleep 1000")
        self.reaches("a", "running")
        until(lambda: self.logs()["output"], "it has said something")
        got = self.logs("AFTER", position)
        self.assertEqual((got["output"], got["lost"]), ("short\n", 1))
        self.assertEqual(self.logs("AFTER", got["next"])["output"], "")

    def test_the_pool_of_somebody_else_keeps_its_values(self):
        self.do("POOL", "CREATE", "sensors", "SET")
        self.do("POOL", "ADD", "sensors", "a")
        self.sensor("a")
        self.do("SENSOR", "DELETE", "a")
        self.sensor("b")  # and it is known that the delete was seen
        self.want("b")
        self.reaches("b", "backoff")
        self.assertEqual(self.size(), 1)


if __name__ == "__main__":
    unittest.main()
