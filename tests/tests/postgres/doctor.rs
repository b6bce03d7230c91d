//! The findings about the server and the role. Findings about standbys that are there are in the
//! tests of standbys.

use leasehold::store::{Finding, Level, Store as _, examine};

use crate::Database;
use crate::roles::{role, url};

/// The findings of one examination.
pub(crate) struct Visit(Vec<Finding>);

impl Visit {
    pub(crate) async fn to(url: &str) -> Self {
        Self(examine(url).await.unwrap())
    }

    /// Checks that there is a finding of this level on a topic, with these words in it.
    #[track_caller]
    pub(crate) fn assert_found(&self, level: Level, topic: &str, words: &str) {
        let mut of_topic = self.0.iter().filter(|it| it.topic == topic && it.level == level);
        assert!(of_topic.any(|it| it.to_string().contains(words)), "{words:?}: {:?}", self.0);
    }
}

#[tokio::test]
async fn a_schema_that_is_missing_and_functions_that_a_role_may_not_call_are_named() {
    let Some(database) = Database::new() else { return };
    let missing = Visit::to(&database.url()).await;
    missing.assert_found(Level::Warning, "rights", "leasehold schema --install");
    missing.assert_found(Level::Ok, "version", "PostgreSQL");
    missing.assert_found(Level::Ok, "clock", "agrees");
    database.client().await.close().await.unwrap();
    Visit::to(&database.url()).await.assert_found(Level::Ok, "rights", "of this release");
    let role = role(&database, "examined");
    let poor = Visit::to(&url(&database, &role)).await;
    poor.assert_found(Level::Danger, "rights", "may not call boot_4, close_4");
    poor.assert_found(Level::Danger, "rights", &format!("--holder {role} --install"));
}

#[tokio::test]
async fn a_server_that_forgets_in_a_crash_or_waits_for_a_lost_standby_is_told() {
    let Some(server) = crate::server() else { return };
    let visit = Visit::to(&server.url()).await;
    visit.assert_found(Level::Danger, "persistence", "set fsync = on");
    visit.assert_found(Level::Ok, "replicas", "waits for: 0");
    crate::set(&server, "synchronous_standby_names", "FIRST 2 (one, two)").await;
    crate::set(&server, "standard_conforming_strings", "off").await;
    let visit = Visit::to(&server.url()).await;
    visit.assert_found(Level::Danger, "replicas", "waits for: 2, and fewer are there");
}

#[tokio::test]
async fn who_connects_is_warned_of_what_is_wrong_then_and_not_of_what_was_mended() {
    let Some(server) = crate::faults::server() else { return };
    let mut stores = Vec::new();
    for (value, warnings) in [("off", 1), ("on", 0)] {
        crate::set(&server, "full_page_writes", value).await;
        let store = crate::open(&server.url()).await;
        assert_eq!(store.warnings().len(), warnings, "{:?}", store.warnings());
        stores.push(store);
    }
}
