"""Tests of the search page: the server's responses, and the page in a browser."""

import html
import os
import re
import signal
import subprocess
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from socket import create_connection
from urllib.parse import quote, urlencode

import pytest

from aragorn.errors import UsageError
from aragorn.explanation import Explanation
from aragorn.io.dataset import Dataset
from aragorn.search.page import PageParams, render_results
from aragorn.search.results import SearchResults
from aragorn.search.searcher import SearchOptions
from aragorn.search.server import SearchServer
from aragorn.systems.catalogue import get_system
from tests.conftest import ROOT, SAMPLE, fetch_page, serve_sample

QUERY = "Should zoos be abolished?"
MALICIOUS_HTML = "<img src=x onerror=document.title='pwned'>"


@pytest.fixture(scope="module")
def server():
    with serve_sample("dirichlet") as server:
        yield server


@pytest.fixture
def fetch(server):
    return partial(fetch_page, server)


def build_url(**fields):
    return "/?" + urlencode({"q": QUERY, **fields}, doseq=True)


def test_home_page_is_served_on_loopback(server, fetch):
    assert server.server_address[0] == "127.0.0.1"
    status, headers, text = fetch()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert fetch(method="HEAD")[::2] == (200, "")
    assert 'value="dirichlet" checked' in text
    query = QUERY.replace(" ", "+").replace("?", "%3F")
    assert f'<a href="?q={query}&amp;system=dirichlet&amp;depth=5">{QUERY}</a>' in text


def test_results_of_two_systems_are_grouped_by_stance_with_marked_matches(fetch):
    status, _, text = fetch(build_url(system=["dirichlet", "bm25"], depth="10"))
    assert status == 200
    dirichlet, bm25 = text.split('<section class="system">')[1:]
    pro, con = dirichlet.split('<div class="stance con">')
    assert "<code>S8b9b12de-A38bcfb72</code>" in pro
    assert "<code>S8b9b12de-A1c557e4b</code>" in con
    assert "<mark>ZOOS</mark> ARE PRISONS." in pro
    assert dirichlet.count("<article") == bm25.count("<article") == 10
    assert "461 arguments (sample), " in text


def test_no_scripts_and_no_external_resources(fetch):
    for path in ("/", build_url(), "/style.css"):
        _, headers, text = fetch(path)
        assert headers["Content-Security-Policy"].startswith(
            "default-src 'none'; style-src 'self';"
        )
        expected = ("nosniff", "no-referrer")
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == expected
        assert not re.search(r"<script|javascript:|https?://|@import|url\(", text)


def test_other_hosts_methods_and_paths_are_rejected(fetch, server):
    port = server.server_port
    ours = [f"127.0.0.1:{port}", f"localhost:{port}", "localhost:9000", "LOCALHOST"]
    for host in (*ours, "127.0.0.2:1", "[::1]:80"):
        statuses = fetch(Host=host)[0], fetch(f"http://{host}", Host="evil.example")[0]
        assert (host, *statuses) == (host, 200, 200)
        assert "zoos" in fetch(f"HTTP://{host}{build_url()}")[2]
        assert fetch(f"http://{host}/style.css")[1]["Content-Type"].startswith("text/css")
    hosts = [f"evil.example:{port}", f"localhost.evil.example:{port}", "127.0.0.1.evil.example"]
    for host in (*hosts, "x@localhost", ""):
        responses = fetch(build_url(), Host=host), fetch(f"http://{host}{build_url()}")
        for status, _, text in responses:
            assert (host, status, "zoos" in text) == (host, 421, False)
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("GET", "/", skip_host=True)
    for host in (f"127.0.0.1:{port}", "evil.example"):
        connection.putheader("Host", host)
    connection.endheaders()
    assert connection.getresponse().status == 421
    for method in ("POST", "OPTIONS", "TRACE", "X"):
        status, headers, _ = fetch(build_url(), method)
        assert (method, status, headers["Allow"]) == (method, 405, "GET, HEAD")
    for path in ("/x", "/style.css/", "/../etc/passwd", "/%2e%2e/"):
        assert (path, fetch(path)[0]) == (path, 404)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"/?q=zoos&system={quote(MALICIOUS_HTML)}", 400, "unknown system &#39;&lt;img src=x"),
        ("/?q=zoos&depth=1000000", 400, "invalid depth &#39;1000000&#39;; expected one of 5, 10, 20"),
        ("/?q=zoos" + "&system=".join(["", "bm25", "gru", "drmm", "knrm", "snrm"]), 400, "select at most 4"),
        ("/?q=" + "zoo+" * 3_000, 400, "query has 11999 characters"),
        ("/?" + "q=a&" * 200, 400, "more than 100 parameters"),
        ("/?q=" + "a" * 70_000, 414, ""),
        ("/?q=xyzzyx", 200, "No argument matches the query; use other words, or another system."),
    ],
)  # fmt: skip
def test_unusual_urls_are_answered_with_clear_messages(path, status, message, fetch):
    actual_status, _, text = fetch(path)
    assert actual_status == status
    assert message in text
    assert MALICIOUS_HTML not in text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("café".encode(), "café"), (b"caf\xe9", "café"), (b"caf%C3%A9", "café"), (b"caf%E9", "café"),
        ("voilà…".encode(), "voilà…"), ("中国+😀".encode(), "中国 😀"), ("Å%E9".encode(), "Åé"), (b"caf\xe9%C3%A9", "caféé"),
    ],
)  # fmt: skip
def test_queries_are_decoded_as_utf_8_before_latin_1(query, text, server):
    with create_connection(("127.0.0.1", server.server_port)) as connection:
        request = b"GET /?system=bm25&q=%s HTTP/1.0\r\nHost: localhost:%d\r\n\r\n"
        connection.sendall(request % (query, server.server_port))
        response = connection.makefile("rb").read().decode()
    assert f'name="q" value="{text}"' in response


def test_port_in_use_is_reported(server):
    with pytest.raises(UsageError, match="cannot listen on port"):
        SearchServer(server.searcher, Dataset(SAMPLE), [get_system("bm25")], 5, server.server_port)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "code", "message"),
    [(signal.SIGTERM, 143, "interrupted"), (signal.SIGINT, 0, "stopped")],
)
def test_command_serves_until_it_is_stopped(signum, code, message, tmp_path):
    command = [str(ROOT / "run.sh"), "search", "--serve", "0", "--system", "bm25"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    streams = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, **streams, text=True, env=environment)
    try:
        port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", build_url(system="bm25"))
        assert b"<article" in connection.getresponse().read()
        connection.close()
        process.send_signal(signum)
        errors = process.communicate(timeout=10)[1]
        assert process.returncode == code
        assert errors.splitlines()[-1].startswith(message)
        assert list(tmp_path.iterdir()) == []  # temporary files have been removed
    finally:
        process.kill()
        process.communicate()


def test_titles_are_marked_and_more_results_are_one_link_away(fetch):
    _, _, text = fetch(build_url(system="dirichlet"))
    titles = re.findall(r'class="conclusion">(.*?)</span>', text)
    assert len(titles) == 5
    assert sum("<mark>zoos</mark>" in title.lower() for title in titles) >= 2
    [link] = map(html.unescape, re.findall(r'<a href="([^"]*)">More results</a>', text))
    assert link == f"?{build_url(system='dirichlet', depth='10')[2:]}#dirichlet-5"
    _, _, text = fetch("/" + link.split("#")[0])
    assert (text.count("<article"), 'id="dirichlet-5"' in text) == (10, True)
    assert "More results" not in fetch(build_url(system="dirichlet", depth="20"))[2]


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-origin", 200), ("same-site", 200), ("none", 200)],
)
def test_requests_of_other_sites_are_refused(site, status, fetch):
    for path in (build_url(), "/", "/style.css"):
        assert fetch(path, **{"Sec-Fetch-Site": site})[0] == status


def test_all_links_are_relative_so_that_a_proxy_may_add_a_path(fetch):
    for path in ("/", build_url()):
        for link in re.findall(r'(?:href|action|src)="([^"]*)"', fetch(path)[2]):
            assert link.startswith(("?", "./", "style.css", "data:,")), link


def test_explanation_without_contributions_says_so(server):
    system = get_system("dirichlet")
    [results] = server.searcher.search("zoos", [system], SearchOptions(1)).system_results
    hit = replace(results.hits[0], explanation=Explanation(0.0, [], "sum over query terms"))
    page = SearchResults("zoos", [replace(results, hits=[hit])], 0.1)
    text = render_results(server.site, PageParams("zoos", ("dirichlet",)), page, 461)
    assert "No term of the query matches." in text


def test_further_host_names_are_answered_if_the_user_names_them(server):
    hosts = ("args.example.org", "args.example.org:8040", "ARGS.example.org", "other.org")
    system = [get_system("bm25")]
    with SearchServer(
        server.searcher, Dataset(SAMPLE), system, 5, 0, ["Args.example.org"]
    ) as named_server:
        assert [named_server.is_allowed(host) for host in hosts] == [True, True, True, False]
    assert not any(map(server.is_allowed, hosts))
