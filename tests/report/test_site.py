"""Pages that are served: of the folder and of nothing else, to this machine and to nobody else."""

import http.client
import json
import threading

import pytest
from helpers.pages import check_closed
from helpers.run_folders import write_run

from ptycho.config import ConfigError
from ptycho.files.lock import locked
from ptycho.report.site import Site, parts_of
from workflows.read.serve import ServeConfig, open_server, serve


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").write_text("secret")
    outputs = tmp_path / "outputs"
    write_run(outputs / "night" / "a", name="a")
    write_run(outputs / "mine & <b>", name="mine")
    return outputs


def ages(run, when):
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"finished": when}))


def test_the_index_leads_to_every_run(folder):
    site = Site(folder)
    ages(folder / "night/a", "2025-01-01T00:00:00+00:00")
    index = site.answer("/")
    page = check_closed(index.body.decode())
    links = [attrs["href"] for attrs in page.named("a") if attrs["href"].startswith("/run/")]
    assert links == ["/run/night/a", "/run/mine%20%26%20%3Cb%3E"]  # the newest first
    for link in [*links, "/compare"]:
        answer = site.answer(link)
        assert answer.status == 200, link
        check_closed(answer.body.decode())


@pytest.mark.parametrize(
    "target",
    [
        *(
            "/run/../secret",
            "/run/..%2fsecret",
            "/run/%2e%2e/secret",
            "/run/night/../../secret",
            "/run//night/a",
        ),
        *("/run", "/run/none", "/run/night/a/config.yaml", "/live/night/a/config.yaml", "/live/../live.html"),
        *(
            "//night",
            "/run/night%00",
            "/run/night%5ca",
            "",
            "/run/%ff",
            "/run/" + "a" * 5000,
            "http://[",
            "*",
        ),
    ],
)
def test_nothing_else_is_answered(folder, target):
    answer = Site(folder).answer(target)
    assert answer.status == 404 and b"secret\n" not in answer.body
    check_closed(answer.body.decode())


def test_links_that_lead_out_are_not_followed(folder, tmp_path):
    site = Site(folder)
    outside = write_run(tmp_path / "outside", name="x")
    (folder / "linked").symlink_to(outside)
    assert site.answer("/run/linked").status == 404
    run = write_run(folder / "inner", name="i")
    (run / "run.log").unlink()
    (run / "run.log").symlink_to(tmp_path / "secret")
    assert site.answer("/run/inner").status == 404
    assert b"inner" not in site.answer("/").body
    (folder / "night" / "live.html").symlink_to(tmp_path / "secret")
    assert site.answer("/live/night/live.html").status == 404
    assert b"live.html" not in site.answer("/").body


def test_a_page_is_made_again_when_its_run_changes(folder, monkeypatch):
    site, made = Site(folder), []
    from ptycho.report import site as module

    real = module.report_page
    monkeypatch.setattr(module, "report_page", lambda *args, **keys: made.append(1) or real(*args, **keys))
    run = folder / "night/a"
    first, again = site.answer("/run/night/a"), site.answer("/run/night/a")
    assert first.body == again.body and len(made) == 1
    metrics = json.loads((run / "metrics.json").read_text()) | {"warnings": ["the shutter sticks"]}
    (run / "metrics.json").write_text(json.dumps(metrics))
    assert b"the shutter sticks" in site.answer("/run/night/a").body and len(made) == 2
    (run / "manifest.json").unlink()
    assert b"did not end" in site.answer("/run/night/a").body
    with locked(run):
        assert b"still going on" in site.answer("/run/night/a").body
        index = site.answer("/").body
        assert b"running: step 7" in index and b"location.reload" in index


def test_a_damaged_run_ends_nothing(folder, monkeypatch):
    site = Site(folder)
    (folder / "night/a/config.yaml").write_text("a: [")
    (folder / "night/a/assessment.npz").write_bytes(b"PK")
    assert site.answer("/").status == site.answer("/run/night/a").status == 200
    monkeypatch.setattr("ptycho.report.site.report_page", lambda *args, **keys: 1 / 0)
    answer = site.answer("/run/mine%20%26%20%3Cb%3E")
    assert answer.status == 500 and b"division" not in answer.body


def test_live_pages_have_a_link_and_may_run_nothing(folder):
    scanning = folder / "live"
    scanning.mkdir()
    (scanning / "live.html").write_text("<img src=live.png>")
    (scanning / "live.png").write_bytes(b"png")
    (scanning / "other.png").write_bytes(b"png")
    site = Site(folder)
    assert b'href="/live/live/live.html"' in site.answer("/").body
    page = site.answer("/live/live/live.html")
    assert page.status == 200 and page.policy.startswith("default-src 'none'; img-src 'self' data:;")
    assert "script-src" not in page.policy
    assert site.answer("/live/live/live.png").kind == "image/png"
    assert site.answer("/live/live/other.png").status == 404


def test_addresses_are_decoded_once():
    assert parts_of("/run/a%2520b/c?x=/../y#z") == ["run", "a%20b", "c"]
    assert parts_of("/") == []


@pytest.fixture
def ask(folder):
    """``ask(method, target, host)`` of a server that runs meanwhile."""
    with open_server(Site(folder), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        port = server.server_port

        def send(method="GET", target="/", host="127.0.0.1"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.putrequest(method, target, skip_host=True)
            if host is not None:
                connection.putheader("Host", host.format(port=port))
            connection.endheaders()
            answer = connection.getresponse()
            answer.content = answer.read()
            connection.close()
            return answer

        send.port = port
        yield send
        server.shutdown()
        thread.join()


def test_a_browser_on_this_machine_is_answered(ask):
    for host in ("127.0.0.1:{port}", "localhost:{port}"):
        answer = ask(host=host)
        assert answer.status == 200 and answer.content.startswith(b"<!DOCTYPE html>")
    policy = answer.headers["Content-Security-Policy"]
    assert (
        policy.startswith("default-src 'none'")
        and "unsafe" not in policy
        and "frame-ancestors 'none'" in policy
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and "Python" not in answer.headers["Server"]


@pytest.mark.parametrize("host", ["evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", None])
def test_other_names_of_this_machine_are_refused(ask, host):
    answer = ask(host=host)
    assert answer.status == 421 and b"run" not in answer.content


@pytest.mark.parametrize("method", ["POST", "HEAD"])
def test_only_get_is_answered(ask, method):
    answer = ask(method, host="127.0.0.1:{port}")
    assert answer.status == 405 and answer.headers["Allow"] == "GET" and not answer.content


def test_a_port_that_is_taken_is_said(ask, folder):
    with pytest.raises(ConfigError, match=rf"port={ask.port}: is in use; choose another, or port=0"):
        serve(ServeConfig(folder=str(folder), port=ask.port))
    with pytest.raises(ConfigError, match=r"folder=.*: cannot be read \(No such file or directory\)"):
        serve(ServeConfig(folder=str(folder / "none")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.json", '{"product": "solver", "solver": {"r_factor": ' + "9" * 400 + "}}"),
        ("metrics.json", "[" * 200_000),
        ("manifest.json", '{"finished": "2020-01-01", "scans": {"a": {"patterns": ' + "9" * 400 + "}}}"),
        (
            "config.yaml",
            "a0: &a0 [x, x]\n" + "".join(f"a{k + 1}: &a{k + 1} [*a{k}, *a{k}]\n" for k in range(60)),
        ),
        ("config.yaml", "a: " + "9" * 400),
        ("files.json", '{"files.json": "", "' + "a" * 300 + '": "", "a\\u0000b": ""}'),
    ],
    ids=lambda text: text[:12],
)
def test_one_bad_run_does_not_take_down_the_pages_of_all(folder, name, content):
    (folder / "night/a" / name).write_text(content)
    site = Site(folder)
    for page in ("/", "/compare"):
        answer = site.answer(page)
        assert answer.status == 200 and b"mine &amp; &lt;b&gt;" in answer.body
    assert site.answer("/run/mine%20%26%20%3Cb%3E").status == 200
    assert site.answer("/run/night/a").status in (200, 500)
