"""The server's figures: what INFO tells tools made for Redis, and the metrics for Prometheus."""
import unittest

from harness import Case


class Info(Case):
    def test_commands_and_refusals_are_counted_as_redis_does(self):
        before = self.r.info("stats")
        self.do("POOL", "CREATE", "few", "RANGE", 1, 2)
        self.do("ALLOC", "few", "a", "COUNT", 2)
        self.refused("EXHAUSTED", "ALLOC", "few", "b")
        self.refused("NOTFOUND", "LEASE", "0-999999")
        self.refused("unknown command", "NONSENSE")
        stats = self.r.info("all")
        alloc = stats["cmdstat_alloc"]
        self.assertEqual((alloc["calls"], alloc["failed_calls"]), (2, 1))
        self.assertGreater(alloc["usec"], 0)
        self.assertEqual(stats["cmdstat_pool|create"]["calls"], 1)
        self.assertEqual(stats["cmdstat_lease"]["failed_calls"], 1)
        self.assertEqual(stats["errorstat_EXHAUSTED"], "count=1")
        self.assertEqual(stats["total_error_replies"] - before["total_error_replies"], 3)
        self.assertGreater(stats["total_net_output_bytes"], before["total_net_output_bytes"])
        self.assertNotIn("cmdstat_alloc", self.r.info())


if __name__ == "__main__":
    unittest.main()
