//! TLS with a server whose certificate an authority of the test has signed.

use std::fs;

use leasehold::Client;
use leasehold::error::StoreErrorKind;
use leasehold_testkit::{Certificates, Postgres, must};

use crate::installed;

/// The certificate is for 127.0.0.1, and not for this address of the same server.
const ANOTHER_NAME: &str = "127.0.0.2";

async fn refused(url: &str) -> String {
    let error = crate::refused(Client::connect(url).await);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_server_is_believed_that_has_a_certificate_of_the_authority_for_its_name_and_no_other() {
    let (directory, foreign) = (must(tempfile::tempdir()), must(tempfile::tempdir()));
    let files = must(Certificates::write(directory.path()));
    let foreign = must(Certificates::write(foreign.path())).authority;
    let Some(server) = installed("PostgreSQL", must(Postgres::start_with_tls(&files))) else {
        return;
    };
    let port = server.port();
    let url = |host: &str, words: &str| {
        format!("postgres://postgres@{host}:{port}/postgres?timeout=20s&{words}")
    };
    let ours = format!("sslrootcert={}", files.authority.display());
    let theirs = format!("sslrootcert={}", foreign.display());
    let own =
        format!("{ours}&sslcert={}&sslkey={}", files.client.display(), files.client_key.display());

    let encrypted = "SELECT s.ssl, s.client_dn FROM pg_stat_ssl s JOIN pg_stat_activity a \
        USING (pid) WHERE a.application_name = 'leasehold'";
    let client = Client::connect(&url("localhost", &ours)).await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    assert_eq!(server.query(encrypted).unwrap().trim(), "t|");
    guard.release().await.unwrap();
    client.close().await.unwrap();

    let why = refused(&url("localhost", &theirs)).await;
    assert!(why.contains("invalid peer certificate: BadSignature"), "{why}");
    let why = refused(&url(ANOTHER_NAME, &ours)).await;
    assert!(why.contains("not valid for name"), "{why}");
    let any_name = url(ANOTHER_NAME, &format!("{ours}&sslmode=verify-ca"));
    Client::connect(&any_name).await.unwrap();
    let why = refused(&url(ANOTHER_NAME, &format!("{theirs}&sslmode=verify-ca"))).await;
    assert!(why.contains("invalid peer certificate: BadSignature"), "{why}");
    Client::connect(&url(ANOTHER_NAME, "sslmode=require")).await.unwrap();

    let known = Client::connect(&url("localhost", &own)).await.unwrap();
    let _held = known.mutex("a").acquire().await.unwrap();
    let sessions = server.query(encrypted).unwrap();
    assert!(sessions.contains("t|/CN=client"), "{sessions}");
}

#[tokio::test]
async fn files_that_are_replaced_count_for_the_next_session() {
    let directory = must(tempfile::tempdir());
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    [&ours, &theirs].into_iter().for_each(|folder| must(fs::create_dir(folder)));
    let (files, foreign) = (must(Certificates::write(&ours)), must(Certificates::write(&theirs)));
    let Some(server) = installed("PostgreSQL", must(Postgres::start_with_tls(&files))) else {
        return;
    };
    let used = directory.path().join("used.pem");
    must(fs::copy(&files.authority, &used));
    let (port, used) = (server.port(), used.display());
    let url =
        format!("postgres://postgres@localhost:{port}/postgres?timeout=20s&sslrootcert={used}");
    let client = Client::connect(&url).await.unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE application_name = 'leasehold'";
    for (authority, is_believed) in [(&foreign.authority, false), (&files.authority, true)] {
        must(fs::copy(authority, used.to_string()));
        must(server.query(end));
        let acquired = client.mutex("a").try_acquire().await;
        assert_eq!(acquired.is_ok(), is_believed, "{acquired:?}");
    }
}
