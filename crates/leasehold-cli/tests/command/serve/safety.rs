//! Who may use the server, and the results of hostile requests.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use leasehold_testkit::Certificates;
use rustix::net::{AddressFamily, SocketType, bind, socket};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

use super::http::{Answer, connect, send, text};
use super::served::{Served, TOKEN, loses_it, token_file};
use crate::harness::{PATIENCE, Place, until};

/// More connections than the server answers at the same time.
const CROWD: usize = 600;

/// Fewer connections than the server answers for one address.
const SLOW: usize = 100;

fn revoke_body(token: &str) -> String {
    format!(r#"{{"lease":"{token}"}}"#)
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn a_request_for_another_host_is_refused_whatever_it_asks_for() {
    let place = Place::on_file();
    let served = Served::start(&place, &["--allow-host", "locks.example"]);
    let ask = |path: &str, host: &str| {
        send(served.address, &format!("GET {path}"), &[&format!("Host: {host}")], "")
    };
    let port = served.address.port();
    for path in ["/", "/api/v1/locks", "/metrics", "/healthz", "/nothing"] {
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "a:b"]
        {
            let answer = ask(path, host);
            assert_eq!(answer.status, 421, "{path} {host}: {answer:?}");
            assert!(answer.body.contains("--allow-host"), "{answer:?}");
        }
    }
    for host in ["localhost", "127.0.0.1", "[::1]", "LOCKS.example"] {
        assert_eq!(ask("/api/v1/locks", &format!("{host}:{port}")).status, 200, "{host}");
    }
    let twice = ["Host: localhost", "Host: evil.example"];
    assert_ne!(send(served.address, "GET /api/v1/locks", &twice, "").status, 200);
}

#[test]
fn nothing_is_revoked_unless_that_was_asked_for() {
    let place = Place::on_redis();
    let _held = place.holder("x", &[]);
    let served = Served::start(&place, &[]);
    served.knows(1);
    let body = revoke_body(&place.token("x").unwrap());
    let answer = served.post("/api/v1/locks/x/revoke", &[&bearer(TOKEN)], &body);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("--allow-revoke"), "{answer:?}");
    assert_eq!(served.json("/api/v1/state")["may_revoke"], false);
    assert_eq!(place.show("x")["holders"][0]["state"], "held");
}

#[test]
fn a_lease_is_taken_away_with_the_token_and_not_without_or_with_another() {
    let place = Place::on_redis();
    let mut held = place.holder("x", &["--ttl", "3s"]);
    let served = Served::with_token(&place);
    served.knows(1);
    let lease = place.token("x").unwrap();
    let revoke =
        |headers: &[&str], body: &str| served.post("/api/v1/locks/x/revoke", headers, body);
    let body = revoke_body(&lease);
    let without = revoke(&[], &body);
    assert_eq!((without.status, without.header("www-authenticate")), (401, Some("bearer")));
    let longer = format!("{TOKEN}x");
    for wrong in ["wrong", "", &TOKEN[1..], &longer] {
        assert_eq!(revoke(&[&bearer(wrong)], &body).status, 401, "{wrong}");
    }
    // A page of another origin cannot revoke, whatever it knows.
    for foreign in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        assert_eq!(revoke(&[&bearer(TOKEN), foreign], &body).status, 403, "{foreign}");
    }
    let other = revoke(&[&bearer(TOKEN)], &revoke_body("17"));
    assert_eq!(other.status, 409, "{other:?}");
    // Faults of a request are answered in JSON, like everything else.
    let no_token = revoke(&[&bearer(TOKEN)], r#"{"token":"x"}"#);
    let path = "POST /api/v1/locks/x/revoke";
    let no_type = send(served.address, path, &[&bearer(TOKEN)], &body);
    let no_number = served.get("/api/v1/locks?limit=abc");
    for (answer, status) in [(no_token, 422), (no_type, 415), (no_number, 400)] {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.json()["error"].is_string(), "{answer:?}");
    }
    assert_eq!(revoke(&[&bearer(TOKEN)], &format!("[{}]", " ".repeat(9000))).status, 413);
    assert_eq!(place.show("x")["holders"][0]["state"], "held");
    let done = revoke(&[&bearer(TOKEN)], &body);
    assert_eq!((done.status, done.body.as_str()), (200, r#"{"revoked":true}"#));
    loses_it(&mut held);
}

#[test]
fn people_revoke_with_the_token_through_a_proxy_that_does_tls() {
    let place = Place::on_redis();
    let file = token_file(&place, TOKEN, 0o600);
    let options = ["--allow-revoke", "--token-file", &file, "--allow-host", "locks.example"];
    let served = Served::start(&place, &options);
    let mut held = place.holder("x", &["--ttl", "3s"]);
    let body = revoke_body(&place.token("x").unwrap());
    let page = ["Host: locks.example", "Origin: https://locks.example"];
    let (site, token) = ("Sec-Fetch-Site: same-origin", bearer(TOKEN));
    let headers = [page[0], page[1], site, &token];
    let revoked = served.post("/api/v1/locks/x/revoke", &headers, &body);
    assert_eq!(revoked.status, 200, "{revoked:?}");
    loses_it(&mut held);
    let elsewhere = ["Host: locks.example", "Origin: https://locks.example:8443"];
    assert_eq!(send(served.address, "GET /api/v1/locks", &elsewhere, "").status, 403);
}

#[test]
fn a_wrong_token_is_refused_also_where_none_is_needed() {
    let place = Place::on_file();
    let served = Served::with_token(&place);
    let state = |headers: &[&str]| send(served.address, "GET /api/v1/state", headers, "").status;
    assert_eq!((state(&[]), state(&[&bearer(TOKEN)])), (200, 200));
    assert_eq!(state(&[&bearer("wrong")]), 401);
}

#[test]
fn where_others_can_reach_it_nothing_of_any_lock_is_told_without_the_token() {
    let place = Place::on_file();
    let file = token_file(&place, TOKEN, 0o600);
    let served = Served::start_at(&place, "0.0.0.0:0", &["--token-file", &file]);
    for path in [
        "/api/v1/state",
        "/api/v1/locks",
        "/api/v1/locks/x",
        "/api/v1/screen?count=1",
        "/api/v1/doctor",
        "/metrics",
    ] {
        assert_eq!(served.get(path).status, 401, "{path}");
    }
    for path in ["/", "/app.js", "/style.css", "/healthz"] {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
    let known = |path: &str| send(served.address, &format!("GET {path}"), &[&bearer(TOKEN)], "");
    until("it answers", || known("/readyz").status == 200);
    assert_eq!(known("/api/v1/locks").json()["locks"].as_array().unwrap().len(), 0);
}

#[test]
fn what_would_not_be_safe_is_refused_with_the_remedy() {
    let place = Place::on_file();
    let refused = |options: &[&str], words: &str| {
        place
            .end(&[&["serve", "--listen", "127.0.0.1:0"], options].concat())
            .assert_failed(2, words);
    };
    refused(&["--allow-revoke"], "--token-file");
    refused(&["--tls-cert", "x"], "--tls-key");
    refused(&["--token-file", "missing"], "missing: No such file");
    let short = token_file(&place, "short", 0o600);
    refused(&["--token-file", &short], "openssl rand -hex 32");
    let open = token_file(&place, TOKEN, 0o644);
    refused(&["--token-file", &open], &format!("chmod o= {open}"));
    for listen in ["localhost:9740", ":9740", "9740"] {
        place.end(&["serve", "--listen", listen]).assert_failed(2, "write 127.0.0.1:9740");
    }
    place.end(&["serve", "--listen", "0.0.0.0:0"]).assert_failed(2, "give --token-file");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.end(&["serve", "--listen", &address]).assert_failed(69, "cannot listen");
}

#[test]
fn every_answer_tells_browsers_to_fetch_nothing_from_elsewhere_and_shares_with_no_origin() {
    let place = Place::on_file();
    let served = Served::start(&place, &[]);
    for path in ["/", "/app.js", "/api/v1/locks", "/nothing"] {
        let answer = served.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("x-frame-options"), Some("deny"));
        assert!(!answer.head.contains("access-control-allow"), "{answer:?}");
    }
    let foreign = ["Origin: http://evil.example"];
    assert_eq!(send(served.address, "GET /api/v1/locks", &foreign, "").status, 403);
    let page = served.get("/").body;
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
}

#[test]
fn one_peer_with_many_connections_keeps_no_other_peer_waiting() {
    let place = Place::on_file();
    let served = Served::start(&place, &[]);
    let peer = |address: &str, request: &str| {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &address.parse::<SocketAddr>().unwrap()).unwrap();
        rustix::net::connect(&socket, &served.address).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A connection over the limit is closed meanwhile.
        let _sent = stream.write_all(request.as_bytes());
        stream
    };
    let unended = "GET / HTTP/1.1\r\nHost: localhost\r\nX-Never-Ends:";
    let mut crowd: Vec<_> = (0..CROWD).map(|_| peer("127.0.0.2:0", unended)).collect();
    let mut answer = Vec::new();
    peer("127.0.0.3:0", &text(served.address, "GET /healthz", &[], ""))
        .read_to_end(&mut answer)
        .unwrap();
    assert_eq!(Answer::parse(&answer).status, 200);
    let mut none = Vec::new();
    let _reset = crowd.pop().unwrap().read_to_end(&mut none);
    assert_eq!(none, b"", "it has as many as it may");
    // The connection was refused, and not ended for its slowness: the first one has not ended yet.
    let (first, mut answer) = (&mut crowd[0], Vec::new());
    first.write_all(b" ends\r\nConnection: close\r\n\r\n").unwrap();
    first.read_to_end(&mut answer).unwrap();
    assert_eq!(Answer::parse(&answer).status, 200);
}

#[test]
fn slow_clients_are_ended_and_keep_nobody_out() {
    let place = Place::on_file();
    let served = Served::with_token(&place);
    let mut slow: Vec<_> = (0..SLOW).map(|_| connect(served.address)).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Never-Ends:").unwrap();
    }
    assert_eq!(served.get("/api/v1/locks").status, 200);
    for stream in &mut slow {
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest);
        assert_ne!(Answer::parse(&rest).status, 200);
    }
    // The server does not wait for a body that never comes, either.
    let mut stream = connect(served.address);
    let headers = ["Content-Type: application/json", "Content-Length: 10", &bearer(TOKEN)];
    let head = text(served.address, "POST /api/v1/locks/x/revoke", &headers, "");
    stream.write_all(head.as_bytes()).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(Answer::parse(&rest).status, 408);
    // Nor does it wait for a head that never ends.
    let mut stream = connect(served.address);
    let _reset = stream.write_all(&[b"GET / HTTP/1.1\r\nX: ", &[b'x'; 64 * 1024][..]].concat());
    let mut rest = Vec::new();
    let _reset = stream.read_to_end(&mut rest);
    assert_ne!(Answer::parse(&rest).status, 200);
}

#[test]
fn with_a_certificate_it_answers_by_tls_only() {
    let place = Place::on_file();
    let certificates = Certificates::write(place.directory.path()).unwrap();
    let (cert, key) = (certificates.server.as_path(), certificates.server_key.as_path());
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let served = Served::start(&place, &["--tls-cert", cert, "--tls-key", key]);
    let ca =
        CertificateDer::pem_file_iter(&certificates.authority).unwrap().next().unwrap().unwrap();
    let answer = ask_by_tls(served.address, ca);
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut plain = connect(served.address);
    plain.write_all(text(served.address, "GET /healthz", &[], "").as_bytes()).unwrap();
    let mut rest = Vec::new();
    let _reset = plain.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
    place.end(&["serve", "--tls-cert", key, "--tls-key", key]).assert_failed(2, "--tls-cert");
}

fn ask_by_tls(address: SocketAddr, ca: CertificateDer<'static>) -> Answer {
    let mut roots = RootCertStore::empty();
    roots.add(ca).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = connect(address);
    let mut tls = Stream::new(&mut connection, &mut stream);
    tls.write_all(text(address, "GET /healthz", &[], "").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _closed = tls.read_to_end(&mut bytes);
    Answer::parse(&bytes)
}
