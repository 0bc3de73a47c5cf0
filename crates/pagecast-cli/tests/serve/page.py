"""The page of `pagecast serve --ui` in Chromium: the first argument is its address. Scans must move
while queries run. With a folder as second argument, pictures of it are left there."""

import json
import pathlib
import shutil
import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

ADDRESS = sys.argv[1]
PICTURES = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}


def browser():
    options = Options()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "force-device-scale-factor=1"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Else Selenium asks the network for one.
    options.binary_location = shutil.which("chromium")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def progress(driver):
    """Where each scan stands, in percent."""
    return driver.execute_script(
        """return Object.fromEntries([...document.querySelectorAll(".scan")].map(row =>
            [row.dataset.scan, Number(row.querySelector(".track").getAttribute("aria-valuenow"))]))"""
    )


def samples(driver):
    return int(driver.execute_script("return document.documentElement.dataset.samples || 0"))


def scans_move(driver):
    """Waits until a scan that was seen before has gone on."""
    seen = {}

    def moved(driver):
        for scan, percent in progress(driver).items():
            if percent > seen.setdefault(scan, percent):
                return True
        return False

    WebDriverWait(driver, 60, poll_frequency=0.2).until(moved)


def fits(driver):
    """Nothing sticks out to the side."""
    width, inner = driver.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert width <= inner, f"{width} pixels in a window of {inner}"


def looks(driver):
    """Two widths, light and dark."""
    grounds = set()
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for name, (width, height) in SIZES.items():
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            before = samples(driver)
            WebDriverWait(driver, 30).until(lambda driver: samples(driver) > before and progress(driver))
            fits(driver)
            if PICTURES:
                driver.save_screenshot(str(PICTURES / f"page-{name}-{scheme}.png"))
        grounds.add(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2, grounds


def compares(driver):
    """What was saved against a clock is among the numbers."""
    names = driver.execute_script("return [...document.querySelectorAll('#numbers dt')].map(name => name.textContent)")
    assert any("a clock" in name for name in names), names


def many(driver):
    """A thousand scans, all frames that are sent, and a hundred queries, drawn thirty times."""
    sample = {
        "seconds": 1, "policy": "pbm", "pool_bytes": 1 << 36, "resident": 1 << 20, "in_use": 1 << 20, "pinned": 9,
        "loading": 3, "bytes_requested": 1e12, "bytes_read": 4e11, "evictions": 7, "requests": 100, "hits": 60,
        "chunks": 5, "chunks_shared": 3, "chunk_loads": 2, "requested_rate": 1e9, "read_rate": 4e8,
        "eviction_rate": 7, "clock_bytes": 6e11, "clock_saved": 2e11, "clock_sampled": 0.25, "connections": 200, "frames": "aAbcdefghijz." * 315, "scan_count": 1000,
        "scans": [
            {"id": str(n), "name": f"lake/{n}.parquet", "position": n, "length": 1000, "unordered": n % 2 == 0,
             "speed": n, "left": 9.5, "shared": n % 3, "chunks": 9, "out": 1, "waiting": False}
            for n in range(1000)
        ],
        "expected": [
            {"reads": f"l_tax FROM {n}.parquet", "in": 60 * n - 99, "trust": 0.9, "came": n, "failed": 1, "kept": n % 2 == 0}
            for n in range(100)
        ],
        "queries": [
            {"pid": n, "user": "ada", "sql": f"SELECT {n}", "seconds": 1.5, "rows": n, "share": 0.01} for n in range(100)
        ],
    }
    driver.execute_script("events.close()")
    median, rows = driver.execute_async_script(
        """const [text, done] = arguments, sample = JSON.parse(text), times = [];
        function draw() {
            const began = performance.now();
            for (const scan of sample.scans) scan.position = (scan.position + 7) % 1000;
            events.onmessage({ data: JSON.stringify(sample) });
            document.body.getBoundingClientRect();
            times.push(performance.now() - began);
            if (times.length < 30) requestAnimationFrame(draw);
            else done([times.sort((a, b) => a - b)[15], document.querySelectorAll(".scan").length]);
        }
        draw();""",
        json.dumps(sample),
    )
    print(f"a sample of 1,000 scans is drawn in {median:.0f} ms (median of 30)")
    assert rows == 1000, rows
    fits(driver)


def main():
    driver = browser()
    try:
        driver.set_script_timeout(120)
        driver.get(ADDRESS)
        WebDriverWait(driver, 30).until(lambda driver: samples(driver) >= 2)
        scans_move(driver)
        compares(driver)
        looks(driver)
        many(driver)
        wrong = [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        assert not wrong, wrong
    finally:
        driver.quit()


start = time.monotonic()
main()
print(f"the page was looked at for {time.monotonic() - start:.0f} s")
