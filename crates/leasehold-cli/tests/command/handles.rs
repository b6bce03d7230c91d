//! Forged and damaged handles: `give` and `renew` do nothing to the things that these name.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Place, ended};

pub(crate) const MARK: &str = "lh1.";

/// All files below a directory: the kind and the content of each.
fn everything(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let content = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.insert(format!("{} {kind:?}", path.display()), content);
        if kind.is_dir() {
            found.extend(everything(&path));
        }
    }
    found
}

/// The things that a handle must not touch.
struct Precious {
    directory: TempDir,
    listener: UnixListener,
    before: BTreeMap<String, Vec<u8>>,
}

impl Precious {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "dear").unwrap();
        fs::create_dir(directory.path().join("directory")).unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        // Nobody listens here, as when a server is away for a moment.
        drop(UnixListener::bind(directory.path().join("refused")).unwrap());
        let before = everything(directory.path());
        Self { directory, listener, before }
    }

    fn paths(&self) -> Vec<String> {
        let names = ["file", "socket", "refused", "directory", "new", "directory/new"];
        names.map(|name| self.directory.path().join(name).display().to_string()).into()
    }

    #[track_caller]
    fn assert_untouched(&self, by: &str) {
        assert_eq!(everything(self.directory.path()), self.before, "{by}");
        let connected = self.listener.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(connected, Err(ErrorKind::WouldBlock), "{by}");
    }
}

pub(crate) fn encoded(json: &[u8]) -> String {
    format!("{MARK}{}", BASE64URL_NOPAD.encode(json))
}

pub(crate) fn decoded(handle: &str) -> Value {
    let encoded = handle.trim_end().strip_prefix(MARK).unwrap();
    serde_json::from_slice(&BASE64URL_NOPAD.decode(encoded.as_bytes()).unwrap()).unwrap()
}

/// A handle of a lease, as JSON.
fn sound(place: &Place) -> Value {
    decoded(&place.end(&["take", "a", "--for", "1h", "--log", "log"]).stdout)
}

fn use_handle(place: &Place, handle: &str) {
    for arguments in [&["renew", "--for", "1m", handle][..], &["give", handle]] {
        let ended = place.end(arguments);
        assert!(matches!(ended.code, Some(0 | 2 | 69 | 76)), "{handle}: {ended:?}");
    }
}

/// The same handle with a path in one place after the other.
fn forged(sound: &Value, path: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for field in ["host", "user", "store", "client", "socket", "path", "directory"] {
        all.push((field, json!(path)));
    }
    for store in ["file:", "redis+unix://", "redis+unix://u:p@", "redis://127.0.0.1:1/?ca="] {
        all.push(("store", json!(format!("{store}{path}"))));
    }
    all.push(("names", json!([{"name": path, "token": "7"}])));
    let with = |(field, value): (&str, Value)| {
        let mut handle = sound.clone();
        // The client id alone must not lead to it.
        handle["client"] = json!("00000000000000010000000000000001");
        handle[field] = value;
        handle
    };
    all.into_iter().map(with).collect()
}

#[test]
fn a_forged_handle_creates_removes_and_connects_to_nothing_that_it_names() {
    let (place, precious) = (Place::on_file(), Precious::new());
    let sound = sound(&place);
    assert!(sound["client"].as_str().is_some_and(|id| id.len() == 32), "{sound}");
    let own = everything(place.directory.path()).into_keys().collect::<Vec<_>>();
    for path in precious.paths() {
        for handle in forged(&sound, &path) {
            use_handle(&place, &encoded(handle.to_string().as_bytes()));
            precious.assert_untouched(&handle.to_string());
        }
    }
    assert_eq!(everything(place.directory.path()).into_keys().collect::<Vec<_>>(), own);
    use_handle(&place, &encoded(sound.to_string().as_bytes()));
}

#[test]
fn what_is_no_socket_of_the_own_user_is_left_alone_also_where_sockets_are() {
    let (place, precious) = (Place::on_file(), Precious::new());
    let sound = sound(&place);
    let sockets = place.directory.path().join("leasehold");
    for target in ["file", "socket", "refused"] {
        let mut handle = sound.clone();
        handle["client"] = json!("000000000000000b0000000000000001");
        let there = sockets.join("000000000000000b");
        symlink(precious.directory.path().join(target), &there).unwrap();
        use_handle(&place, &encoded(handle.to_string().as_bytes()));
        assert!(there.is_symlink(), "{target}");
        precious.assert_untouched(target);
        fs::remove_file(&there).unwrap();
        fs::write(&there, "dear").unwrap();
        use_handle(&place, &encoded(handle.to_string().as_bytes()));
        assert_eq!(fs::read(&there).unwrap(), b"dear");
        fs::remove_file(there).unwrap();
    }
    use_handle(&place, &encoded(sound.to_string().as_bytes()));
}

#[test]
fn a_server_that_only_the_handle_names_is_told_no_password() {
    let place = Place::on_file();
    let sound = sound(&place);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut forged = sound.clone();
    forged["client"] = json!("00000000000000010000000000000001");
    forged["store"] = json!(format!("redis://default:***@{}/", server.local_addr().unwrap()));
    let handle = encoded(forged.to_string().as_bytes());
    let listening = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut heard = vec![0; 4096];
        let length = stream.read(&mut heard).unwrap();
        heard.truncate(length);
        String::from_utf8_lossy(&heard).into_owned()
    });
    let mut give = place.leasehold(&["give", &handle]);
    give.env("LEASEHOLD_PASSWORD", "5ecret");
    ended(give).assert_failed(76, "its holder process has ended");
    let heard = listening.join().unwrap();
    assert!(!heard.is_empty() && !heard.contains("5ecret") && !heard.contains("***"), "{heard}");
    use_handle(&place, &encoded(sound.to_string().as_bytes()));
}
