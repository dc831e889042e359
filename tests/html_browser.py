#!/usr/bin/env python3
"""html_browser.py - opens a report in headless Chromium and looks at it as a reader would.
Not a screenshot comparison: it asks the page what it shows. No message on the console, no request beyond the file, no
sideways scrolling on a phone or on paper, another background in the dark, the fork's link leads to the fork, every drawing
has a size.
Source: ours; the DevTools protocol over a pipe. Exercise: ctest -R html_browser
usage: html_browser.py CHROMIUM PAGE.html [PREFIX for screenshots]"""
import base64
import json
import os
import subprocess
import sys
import tempfile


class Browser:
    def __init__(self, program, profile):
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()

        def wire():  # the protocol's own descriptors; 20 and 21 first, so that neither end is overwritten
            os.dup2(to_read, 20), os.dup2(from_write, 21)
            os.dup2(20, 3), os.dup2(21, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             f"--user-data-dir={profile}"], preexec_fn=wire, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(from_write)
        self.n, self.rest, self.session, self.events = 0, b"", None, []

    def message(self):
        while b"\0" not in self.rest:
            part = os.read(self.back, 1 << 20)
            if not part:
                raise SystemExit("the browser went away")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.n += 1
        request = {"id": self.n, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == self.n:
                if "error" in m:
                    raise SystemExit(f"{method}: {m['error']}")
                return m["result"]
            self.events.append(m)

    def wait(self, method):
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self.message())

    def ask(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")


def check(good, what):
    if not good:
        raise SystemExit("FAILED: " + what)


def look(b, url, prefix):
    target = b.call("Target.createTarget", url="about:blank")["targetId"]
    b.session = b.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        b.call(domain + ".enable")
    b.call("Emulation.setDeviceMetricsOverride", width=1100, height=900, deviceScaleFactor=1, mobile=False)
    b.call("Page.navigate", url=url)
    b.wait("Page.loadEventFired")
    check(b.ask("document.querySelector('h1') !== null && document.title !== ''"), "no title, no heading")
    check(b.ask("document.querySelector('h1').getBoundingClientRect().top < 200"), "the verdict is not at the top")
    check(b.ask("[...document.querySelectorAll('svg')].every(s => s.getBoundingClientRect().height > 100)"), "a flat drawing")
    check(b.ask("[...document.querySelectorAll('svg path')].every(p => !(p.getAttribute('d') || '').includes('n'))"),
          "a drawing with NaN in it")
    if b.ask("document.querySelector('a[href=\"#fork\"]') !== null"):
        b.ask("document.documentElement.style.scrollBehavior = 'auto'; document.querySelector('a[href=\"#fork\"]').click()")
        check(b.ask("location.hash") == "#fork", "the fork's link")
        top = b.ask("document.getElementById('fork').getBoundingClientRect().top")
        bottom = b.ask("document.documentElement.getBoundingClientRect().bottom - innerHeight")
        check(-1 <= top < 300 or bottom < 5, f"the fork is {top} pixels down after its link was followed")
        b.ask("window.scrollTo(0, 0)")
    # 718: what a sheet of A4 leaves between the browser's margins; it is white whatever the screen likes
    sizes = (("desktop", 1100, "light"), ("phone", 390, "light"), ("dark", 1100, "dark"), ("print", 718, "dark"))
    colours = []
    for name, width, scheme in sizes:
        b.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        b.call("Emulation.setEmulatedMedia", media="print" if name == "print" else "", features=[{"name": "prefers-color-scheme", "value": scheme}])
        check(b.ask("document.documentElement.scrollWidth <= innerWidth"), f"{name}: the page scrolls sideways")
        colours.append(b.ask("getComputedStyle(document.body).backgroundColor"))
        if prefix:
            shot = b.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
            open(f"{prefix}-{name}.png", "wb").write(base64.b64decode(shot["data"]))
    check(colours[0] == colours[1] == colours[3] != colours[2], f"the dark scheme has the colours {colours}")
    for e in b.events:
        method, params = e.get("method"), e.get("params", {})
        check(method not in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"), f"console: {params}")
        if method == "Network.requestWillBeSent":
            check(params["request"]["url"].startswith(("file:", "data:")), f"fetches {params['request']['url']}")


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        b = Browser(sys.argv[1], profile)
        try:
            look(b, "file://" + os.path.abspath(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
        finally:
            b.process.kill()
            b.process.wait()


main()
