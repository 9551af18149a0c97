"""`rondo bench scale` on small cells: the bits, the files and the errors; never the times."""

import json
import subprocess
import unittest
import xml.etree.ElementTree

from harness import BIN, PATIENCE, SOURCE, TRANSPORTS, Case

NETNS = SOURCE / "tests/e2e/netns/netns"


class Scale(Case):
    def scale(self, *words, **options):
        return self.rondo("bench", "scale", "--quiet", "--repeat", 1, *words, **options)

    def check_cells(self, result, tokens, workers):
        self.assertEqual([(c["tokens"], c["workers"]) for c in result["cells"]], [(n, w) for n in tokens for w in workers])
        self.assertIs(result["verified"], True)
        for cell in result["cells"]:
            self.assertIs(cell["verified"], True, cell)
            self.assertEqual(len(cell["digest"]), 64)
            self.assertEqual(len(cell["ranks"]), cell["workers"])
            self.assertEqual(cell["sent_bytes"] > 0, cell["workers"] > 1)
        by_tokens = {}
        for cell in result["cells"]:
            by_tokens.setdefault(cell["tokens"], set()).add(cell["digest"])
        self.assertEqual({n: len(d) for n, d in by_tokens.items()}, {n: 1 for n in tokens})
        self.assertEqual(len(set.union(*by_tokens.values())), len(tokens))

    def test_table_and_files(self):
        paths = {name: self.folder / name for name in ["s.json", "s.svg", "s.html", "t.json"]}
        for transport in TRANSPORTS:
            with self.subTest(transport):
                done = self.scale("--workers", "1,2", "--tokens", "1k", "--heads", "4/2x32", "--transport", transport, "--json",
                                  paths["s.json"], "--plot", paths["s.svg"], "--trace", paths["t.json"], check=0)
                table = done.stdout.decode()
                self.assertIn("VERIFIED", table)
                self.assertEqual(table.count(" yes\n"), 2, table)
                self.check_cells(json.loads(paths["s.json"].read_text()), [1024], [1, 2])
                self.assertTrue(xml.etree.ElementTree.parse(paths["s.svg"]).getroot().tag.endswith("svg"))
                events = json.loads(paths["t.json"].read_text())["traceEvents"]
                self.assertEqual({e["pid"] for e in events}, {0, 1})

    def test_one_worker_is_added_and_json_goes_to_stdout(self):
        done = self.scale("--workers", "3", "--tokens", "600,1k", "--heads", "2/1x16", "--transport", "loopback", "--json", "-",
                          "--plot", self.folder / "p.html", check=0)
        self.check_cells(json.loads(done.stdout), [600, 1024], [1, 3])
        self.assertIn("<svg", (self.folder / "p.html").read_text())

    def test_a_model(self):
        model = self.tiny_model()
        done = self.scale("--workers", "1,2", "--tokens", "600", "--model", model, "--transport", TRANSPORTS[0], "--json", "-", check=0)
        self.check_cells(json.loads(done.stdout), [600], [1, 2])

    def test_different_bits_are_a_failure(self):
        # A rank program that lies: the digest of two workers is another.
        folder = self.folder / "bin"
        folder.mkdir()
        liar = folder / "scale_rank"
        liar.write_text(f'#!/bin/bash\n[[ "$*" == *"--ranks 2"* ]] && more="--seed 2"\nexec {BIN}/scale_rank "$@" $more\n')
        liar.chmod(0o755)
        done = self.scale("--workers", "1,2", "--tokens", "300", "--heads", "2/1x16", "--transport", "loopback", "--bin", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"NO\n", done.stdout)
        self.assertIn(b"not every cell gives the bits of one worker", done.stderr)

    def test_errors_name_what_is_wrong(self):
        for words, code, text in [
            (["--workers", "0"], 2, b"--workers: '0' is not a number from 1 to 4096"),
            (["--tokens", "4q"], 2, b"--tokens: '4q'"),
            (["--tokens", "256", "--workers", "1", "--heads", "3/2x8"], 1, b"KV heads must divide the query heads"),
            (["--hosts", "/no/such/file"], 1, b"/no/such/file"),
            (["--bin", "/no/such/folder"], 1, b"/no/such/folder"),
            (["--tokens", "256", "--workers", "1", "--mpirun", "/no/mpirun"], 1, b"/no/mpirun"),
        ]:
            done = self.scale(*words)
            self.assertEqual(done.returncode, code, words)
            self.assertIn(text, done.stderr)


class Serve(Case):
    def test_every_request_is_answered_and_counted(self):
        ring = self.up(self.tiny_model(), workers=2, transport="loopback")
        done = self.rondo("bench", "serve", "--coordinator", ring.address, "--clients", 3, "--requests", 7, "--prompt", 40,
                          "--answer", 5, "--json", "-", check=0)
        result = json.loads(done.stdout)
        self.assertEqual((result["answered"], result["failed"]), (7, 0), result["failures"])
        self.assertEqual([r["answer_tokens"] for r in result["requests"]], [5] * 7)
        for request in result["requests"]:
            self.assertLess(0, request["ttft_s"])
            self.assertLessEqual(request["ttft_s"], request["end_s"] - request["begin_s"])
        table = self.rondo("bench", "serve", "--coordinator", ring.address, "--requests", 2, "--prompt", 8, "--answer", 2, check=0)
        self.assertIn(b"time to first token", table.stdout)

    def test_no_coordinator(self):
        done = self.rondo("bench", "serve", "--coordinator", "127.0.0.1:1", check=69)
        self.assertIn(b"127.0.0.1:1", done.stderr)


class Programs(Case):
    def test_ring_as_text_and_as_json(self):
        if "mpi" not in TRANSPORTS:
            self.skipTest("built without MPI")
        path = self.folder / "ring.json"
        self.rondo("bench", "ring", "--workers", 2, "--json", path, "--", "600", check=0)
        rows = json.loads(path.read_text())["rows"]
        self.assertEqual({row["what"] for row in rows}, {"ring step", "all-gather", "prefill", "decode"})
        self.assertEqual([row["tokens"] for row in rows if row["what"] == "prefill"], [600])

    def test_help_begins_with_examples(self):
        for words in [[], ["attention"], ["matmul"], ["decode"], ["ring"], ["scale"], ["serve"]]:
            text = self.rondo("bench", *words, "--help", check=0).stdout.decode()
            self.assertLess(text.index("Examples:"), text.index("Options:"), words)

    def test_a_missing_program_is_named(self):
        done = self.rondo("bench", "attention", "--bin", self.folder, check=1)
        self.assertIn(b"attention_bench", done.stderr)


@unittest.skipUnless("mpi" in TRANSPORTS, "built without MPI")
class Hosts(Case):
    """Three network namespaces of this machine in the place of three hosts."""

    def netns(self, *words, hosts=3):
        done = subprocess.run([str(NETNS), "run", str(hosts), "--", *map(str, words)], capture_output=True, timeout=PATIENCE,
                              env=self.env, stdin=subprocess.DEVNULL)
        if done.returncode == 77:
            self.skipTest(done.stderr.decode().strip())
        return done

    def leftovers(self):
        text = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        return [line for line in text.splitlines() if line.startswith(self.prefix)]

    def test_a_ring_over_three_hosts_gives_the_bits_of_one(self):
        script = self.folder / "go"
        script.write_text("#!/bin/bash\nset -e\nhostname >\"$2\"\n\"$1\" bench scale --quiet --repeat 1 --workers 1,3 --tokens 1k "
                          "--heads 4/2x32 --hosts \"$RONDO_HOSTS\" --agent \"$RONDO_AGENT\" --network \"$RONDO_NETWORK\" --json -\n")
        script.chmod(0o755)
        name = self.folder / "name"
        done = self.netns(script, BIN / "rondo", name)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        result = json.loads(done.stdout)
        self.assertIs(result["verified"], True)
        ring = result["cells"][1]
        self.assertEqual(ring["workers"], 3)
        self.assertEqual(len({rank["host"] for rank in ring["ranks"]}), 3)  # each on its own
        self.prefix = name.read_text().strip().rsplit("-", 1)[0]
        self.assertEqual(self.leftovers(), [])


if __name__ == "__main__":
    unittest.main()
