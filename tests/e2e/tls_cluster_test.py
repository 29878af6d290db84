#!/usr/bin/env python3
"""Clients of TLS in a cluster: none is sent to an address without TLS, and they find the owner and its successor by
the addresses that they have, whatever their order."""
import http.client
import os
import signal
import socket
import subprocess
import unittest

from cluster import Cluster
from harness import BUILD, PATIENCE, text_of, until
from pyclient import tenure
from tls_kit import Certificates


def ports(node):
    """Those of RESP and HTTP with TLS."""
    return [int(port) for port in text_of(os.path.join(node.data, "port")).split()[3:5]]


class Secure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates = Certificates()
        cls.addClassCleanup(cls.certificates.remove)
        cls.cluster = Cluster(("a", "b"), *cls.certificates.flags())
        cls.addClassCleanup(cls.cluster.remove)

    def url(self, *nodes):
        return "tenures://" + ",".join("localhost:%d" % ports(node)[0] for node in nodes)

    def tool(self, url, *words):
        return subprocess.run([os.path.join(BUILD, "tenure"), "--url", url, "--ca", self.certificates["ca.pem"], *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)

    def get(self, connection):
        connection.request("GET", "/v1/pools")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def test_a_client_is_not_sent_to_an_address_without_tls(self):
        follower = self.cluster.others(self.cluster.owner())[0]

        def redirected():  # when the follower has heard of the owner
            plain = self.get(http.client.HTTPConnection("127.0.0.1", follower.http_port, timeout=PATIENCE))
            return plain.status == 307 and plain.getheader("Location")
        self.assertTrue(until(redirected, "a redirect").startswith("http://"))
        secure = self.get(http.client.HTTPSConnection("localhost", ports(follower)[1], timeout=PATIENCE,
                                                      context=self.certificates.context()))
        self.assertEqual(secure.status, 503)
        self.assertIsNone(secure.getheader("Location"))
        self.assertIsNone(secure.getheader("Tenure-Leader"))
        self.assertEqual(secure.getheader("Retry-After"), "1")
        with self.certificates.context().wrap_socket(
                socket.create_connection(("127.0.0.1", ports(follower)[0]), timeout=PATIENCE), server_hostname="localhost") as s:
            s.sendall(b"*2\r\n$4\r\nPOOL\r\n$4\r\nLIST\r\n")
            reply = s.recv(1000)
        self.assertTrue(reply.startswith(b"-READONLY"), reply)
        self.assertNotIn(b"leader", reply)

    def test_then_clients_find_the_owner_and_its_successor(self):
        owner = self.cluster.owner()
        follower = self.cluster.others(owner)[0]
        url = self.url(follower, owner)
        done = self.tool(url, "pool", "create", "ports", "range", "1", "1000")
        self.assertEqual(done.returncode, 0, done.stdout)
        with tenure.Client(url, ca_file=self.certificates["ca.pem"]) as client:
            client.alloc("ports", "h/1")
            owner.stop(signal.SIGKILL)

            def again():
                try:
                    return client.alloc("ports", "h/2")
                except tenure.TenureError:
                    return None
            until(again, "the successor serves")
        done = self.tool(url, "leases")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("h/2", done.stdout)
        # An authority that did not sign is no authority after a fail-over either.
        other = Certificates()
        self.addCleanup(other.remove)
        with tenure.Client(url, ca_file=other["ca.pem"]) as client:
            with self.assertRaises(tenure.Unreachable):
                client.alloc("ports", "h/3")


if __name__ == "__main__":
    unittest.main()
