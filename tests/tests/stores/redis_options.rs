//! Redis stores that a program opens with its own options, on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use leasehold::store::rustls::pki_types::{CertificateDer, pem::PemObject as _};
use leasehold::store::rustls::{ClientConfig, RootCertStore, crypto::ring};
use leasehold::store::{self, Password, Quarantine, Redis, RedisOptions, Store, TlsConfig};
use leasehold::{Client, Error};
use leasehold_core::StoreErrorKind;
use leasehold_testkit::harness::{soon, until_so};
use leasehold_testkit::{RedisServer, options_of, three_nodes};

/// A server on this machine.
fn options(server: &RedisServer) -> RedisOptions {
    options_of(&format!("redis://127.0.0.1:{}", server.port()))
}

async fn client(store: impl Into<Box<dyn Store>>) -> Client {
    Client::builder().store(store).build().await.unwrap()
}

async fn take_and_release(client: &Client) {
    soon(client.mutex("a").acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_next_connection_after_a_password_has_changed_logs_in_with_the_new_one() {
    let user = format!("rotating on >1 {}", Redis::HOLDER_RIGHTS);
    let server = RedisServer::options().user(&user).start().unwrap();
    static CURRENT: AtomicUsize = AtomicUsize::new(1);
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let source = || async {
        ASKED.fetch_add(1, Ordering::SeqCst);
        Ok(CURRENT.load(Ordering::SeqCst).to_string().into())
    };
    let mut options = options(&server);
    options.login.user = Some("rotating".into());
    options.login.password = Some(Password::from_source(source));
    let client = client(Redis::open(options).await.unwrap()).await;
    let guard = client.mutex("a").acquire().await.unwrap();
    // One of the caller's runtime, one of the keeper's, and one for messages.
    until_so("all connections are open", || ASKED.load(Ordering::SeqCst) == 3);
    guard.release().await.unwrap();
    CURRENT.store(2, Ordering::SeqCst);
    let _: () = server.command("ACL SETUSER rotating resetpass >2").unwrap();
    take_and_release(&client).await;
    assert_eq!(ASKED.load(Ordering::SeqCst), 3, "what is open stays open");
    let _: usize = server.command("CLIENT KILL USER rotating").unwrap();
    take_and_release(&client).await;
    assert!(ASKED.load(Ordering::SeqCst) > 3, "each new connection asks");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_password_source_that_fails_is_an_outage_whose_words_stay_hidden() {
    let server = RedisServer::options().password("2").start().unwrap();
    static FAILS: AtomicBool = AtomicBool::new(true);
    let source = || async {
        let fails = FAILS.load(Ordering::SeqCst);
        if fails { Err("no token for hunter2".into()) } else { Ok("2".into()) }
    };
    let mut options = options(&server);
    options.login.password = Some(Password::from_source(source));
    let Err(Error::Store(error)) = Redis::open(options.clone()).await else {
        panic!("there is no password")
    };
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(!error.may_have_executed() && !error.to_string().contains("hunter2"), "{error}");
    FAILS.store(false, Ordering::SeqCst);
    let client = client(Redis::open(options).await.unwrap()).await;
    take_and_release(&client).await;
}

#[tokio::test]
async fn a_password_source_that_hangs_is_given_up_with_the_connection() {
    let server = RedisServer::start().unwrap();
    let mut options = options(&server);
    options.login.password = Some(Password::from_source(std::future::pending));
    let Err(Error::Store(error)) = Redis::open(options).await else {
        panic!("there is no password")
    };
    assert_eq!(error.kind(), StoreErrorKind::Timeout);
    assert!(error.to_string().contains("no password within 5.0s"), "{error}");
}

#[tokio::test]
async fn tls_may_be_a_configuration_of_the_programs_own_or_files() {
    let server = RedisServer::options().tls(false).start().unwrap();
    let authority = &server.certificates().unwrap().authority;
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let (mut of_program, mut of_files) = (options(&server), options(&server));
    of_program.tls_config = Some(TlsConfig(Arc::new(config)));
    (of_files.tls, of_files.ca) = (true, Some(authority.clone()));
    for options in [of_program, of_files] {
        take_and_release(&client(Redis::open(options).await.unwrap()).await).await;
    }
    let mut options = options(&server);
    options.tls = true;
    let error = Redis::open(options).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_socket_and_a_quorum_are_opened_with_options_too() {
    let (servers, quorum) = three_nodes("");
    let socket = format!("redis+unix://{}", servers[0].socket().display());
    let options = options_of(&socket);
    take_and_release(&client(Redis::open(options).await.unwrap()).await).await;
    let mut options = options_of(&quorum);
    (options.quarantine, options.prefix) = (Quarantine::Off, Some("quorum:".to_owned()));
    let error = Redis::open(options.clone()).await.unwrap_err();
    assert!(error.to_string().contains("store::open"), "{error}");
    take_and_release(&client(store::open(options).await.unwrap()).await).await;
    // Two of three grant; the third may be asked after this check.
    let drew = |server: &&RedisServer| {
        !server.command::<Vec<String>>("KEYS quorum:%token*").unwrap().is_empty()
    };
    assert!(servers.iter().filter(drew).count() >= 2);
}
