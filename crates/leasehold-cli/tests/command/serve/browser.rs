//! A real Chromium, without a window.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::http::send;
use crate::harness::PATIENCE;

/// How often the page is checked: every 50 ms.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A browser and its driver, which end with the test.
#[derive(Debug)]
pub(super) struct Browser {
    pub(super) page: Client,
    driver: Driver,
}

#[derive(Debug)]
struct Driver {
    process: Child,
    address: SocketAddr,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser is in the group of its driver.
        let _ended = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ended = self.process.wait();
    }
}

impl Driver {
    /// A driver chooses a port that is free in IPv4, and exits if that is not free in IPv6.
    fn start() -> Self {
        (0..5).find_map(|_| Self::started()).unwrap_or_else(|| panic!("no port"))
    }

    /// Starts a driver; `None` if it exited before it listened.
    fn started() -> Option<Self> {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = command.spawn();
        let mut process = started.unwrap_or_else(|error| {
            panic!("chromedriver: {error}: install it (`apt-get install chromium-driver`)")
        });
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            line.rsplit_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
        });
        // Nobody reads further lines, but a driver that prints more must not block.
        std::thread::spawn(move || lines.for_each(drop));
        let driver = Self { process, address: ([127, 0, 0, 1], port.unwrap_or_default()).into() };
        port.map(|_| driver)
    }
}

impl Browser {
    /// A browser with a window of this size.
    pub(super) async fn start(width: u32, height: u32) -> Self {
        let driver = Driver::start();
        let wanted = json!({
            "goog:chromeOptions": { "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                format!("--window-size={width},{height}"),
            ] },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let Value::Object(wanted) = wanted else { panic!() };
        let page = ClientBuilder::new(HttpConnector::new())
            .capabilities(wanted)
            .connect(&format!("http://{}", driver.address))
            .await
            .unwrap();
        Self { page, driver }
    }

    /// Runs a script in the page, and returns its result.
    pub(super) async fn run(&self, script: &str) -> Value {
        self.page
            .execute(script, Vec::new())
            .await
            .unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    #[track_caller]
    pub(super) fn until(&self, condition: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let script = format!("return Boolean({condition});");
            let is_so = async {
                while self.run(&script).await != true {
                    sleep(LOOK_EVERY).await;
                }
            };
            if timeout(PATIENCE, is_so).await.is_err() {
                let text = self.run("return document.body.innerText").await;
                panic!("{place}: not {condition}: {text}");
            }
        }
    }

    pub(super) async fn click(&self, selector: &str) {
        self.page.find(Locator::Css(selector)).await.unwrap().click().await.unwrap();
    }

    pub(super) async fn type_into(&self, selector: &str, text: &str) {
        self.page.find(Locator::Css(selector)).await.unwrap().send_keys(text).await.unwrap();
    }

    /// Makes the browser do what a page cannot: a command of the DevTools protocol.
    pub(super) async fn command(&self, name: &str, parameters: Value) {
        let id = self.page.session_id().await.unwrap().unwrap();
        let line = format!("POST /session/{id}/goog/cdp/execute");
        let body = json!({ "cmd": name, "params": parameters }).to_string();
        let answer = send(self.driver.address, &line, &[], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// The size of a phone, or of a window again.
    pub(super) async fn resize(&self, width: u32, height: u32, is_phone: bool) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone,
        });
        self.command("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// The colour scheme that a user prefers: dark or light.
    pub(super) async fn paint(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.command("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// The errors that the console has received since the last call.
    pub(super) async fn errors(&self) -> Vec<String> {
        let id = self.page.session_id().await.unwrap().unwrap();
        let line = format!("POST /session/{id}/se/log");
        let answer = send(self.driver.address, &line, &[], r#"{"type":"browser"}"#).json();
        let lines = answer["value"].as_array().unwrap_or_else(|| panic!("{answer}")).iter();
        let severe = lines.filter(|line| line["level"] == "SEVERE");
        severe.map(|line| line["message"].to_string()).collect()
    }

    /// Saves a picture for people to look at, in `LEASEHOLD_PICTURES`, or otherwise beside other
    /// output of tests.
    pub(super) async fn picture(&self, name: &str) -> PathBuf {
        let folder = std::env::var_os("LEASEHOLD_PICTURES").map(PathBuf::from);
        let folder =
            folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page"));
        std::fs::create_dir_all(&folder).unwrap();
        let picture = self.page.screenshot().await.unwrap();
        let file = folder.join(name);
        std::fs::write(&file, picture).unwrap();
        file
    }

    pub(super) async fn close(self) {
        self.page.close().await.unwrap();
    }
}
