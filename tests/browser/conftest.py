"""What the tests of `make test-browser` need beyond those of `make test`: a browser, and others' readers."""

import shutil

import pytest

NEEDS = "Install it: apt-get install chromium chromium-driver"


def chromium():
    """Paths of the browser and of its driver; the test fails, and says what is missing, where they are not there."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver") or shutil.which("chromium.chromedriver")
    if browser is None or driver is None:
        missing = [name for name, path in {"chromium": browser, "chromedriver": driver}.items() if path is None]
        pytest.fail(f"there is no {' and no '.join(missing)} on the path. {NEEDS}", pytrace=False)
    return browser, driver


@pytest.fixture
def open_browser():
    """Opens browsers, of a width and in light or dark, which are closed after the test."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    binary, driver = chromium()
    opened = []

    def start(width=1280, height=900, *, dark=False):
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(options=options, service=Service(driver))
        opened.append(browser)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        return browser

    yield start
    for browser in opened:
        browser.quit()
