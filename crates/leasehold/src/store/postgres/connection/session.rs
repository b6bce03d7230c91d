//! One session, and the statements that the server has prepared in it.

use std::collections::HashMap;

use bytes::BytesMut;
use leasehold_core::LOCK_CAPACITY;
use leasehold_core::model::Times;
use sha1_smol::Sha1;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql as _, IsNull, ToSql, Type};
use tokio_postgres::{Error, Row, Statement};

use super::dial::{Dialed, Driver, listen};
use crate::mutex::Mutex;

/// The last value of each statement that is shared: it is planned like those of a session of this
/// store alone. Otherwise a plan for a small table would read all of the table when it is large.
const PLANNED: &str = "set_config('enable_seqscan', 'off', true)";

/// A value for a statement, with its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// One session that carries requests.
pub(super) struct Session {
    pub(super) dialed: Dialed,
    schema: String,
    /// The condition of all grants; empty until the server was asked what it may have forgotten.
    pub(super) may_grant: Mutex<String>,
    /// What the server has prepared. The driver's names are numbers, which are unique only in a
    /// session of this store alone.
    prepared: Mutex<HashMap<String, Statement>>,
    /// The names of the statements that all clients of a pooler share.
    shared: Mutex<HashMap<String, String>>,
}

impl Session {
    /// A session, which is driven from now on.
    pub(super) fn begin((dialed, mut driver): (Dialed, Driver), schema: &str) -> Self {
        tokio::spawn(async move { listen(&mut driver, |_, _| {}).await });
        let (prepared, shared, may_grant) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { dialed, schema: schema.to_owned(), may_grant, prepared, shared }
    }

    /// Sets the condition of all grants.
    pub(super) fn allow(&self, may_grant: String) {
        *self.may_grant.lock() = may_grant;
        self.prepared.lock().clear();
    }

    /// The text of a statement, with the name of the schema, and the model's numbers.
    fn text(&self, sql: &str) -> String {
        let Times { ask_ms, grace_ms, queue_ms, window_ms, .. } = Times::USUAL;
        // A session of this store alone has this setting already.
        let set = ", set_config('synchronous_commit', 'on', true)";
        let sql = if self.dialed.is_direct { sql.replace(set, "") } else { sql.to_owned() };
        sql.replace("MAY_GRANT", &self.may_grant.lock())
            .replace("leasehold.", &format!("{}.", self.schema))
            .replace("ASK_MS", &ask_ms.to_string())
            .replace("CAPACITY", &LOCK_CAPACITY.to_string())
            .replace("GRACE_MS", &grace_ms.to_string())
            .replace("QUEUE_MS", &queue_ms.to_string())
            .replace("WINDOW_MS", &window_ms.to_string())
    }

    /// Sends one statement in one flight, so that another one can follow it at once.
    pub(super) async fn plain(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        self.dialed.client.query_typed(&self.text(sql), values).await
    }

    /// Sends one statement, which the server prepares if it can.
    pub(super) async fn prepared(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        if !self.dialed.is_direct {
            return self.execute(sql, values).await;
        }
        let known = self.prepared.lock().get(sql).cloned();
        let prepared = match known {
            Some(prepared) => prepared,
            None => {
                let types: Vec<Type> = values.iter().map(|(_, of)| of.clone()).collect();
                let prepared = self.dialed.client.prepare_typed(&self.text(sql), &types).await?;
                self.prepared.lock().insert(sql.to_owned(), prepared.clone());
                prepared
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        self.dialed.client.query(&prepared, &values).await
    }

    /// Sends one statement through a pooler, by a name that is a hash of its text. So whatever
    /// process of the server gets it has planned it once, for all clients.
    async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let literals: Option<String> = values.iter().map(|it| Some(literal(it)? + ", ")).collect();
        let Some(literals) = literals else { return self.plain(sql, values).await };
        let name = || format!("lh_{}", Sha1::from(self.text(sql)).digest());
        let name = self.shared.lock().entry(sql.to_owned()).or_insert_with(name).clone();
        let execute = format!("EXECUTE {name}({literals}{PLANNED})");
        let done = self.dialed.client.query_typed(&execute, &[]).await;
        // If nothing was executed, it is sent as it is, behind what helps the next time.
        let help = match done.as_ref().err().and_then(Error::code) {
            Some(&SqlState::INVALID_SQL_STATEMENT_NAME) => {
                let types: String = values.iter().map(|(_, of)| format!("{of}, ")).collect();
                format!("PREPARE {name}({types}text) AS {}", self.text(sql))
            }
            // It returns other types, since the schema was made anew.
            Some(&SqlState::FEATURE_NOT_SUPPORTED) => format!("DEALLOCATE {name}"),
            _ => return done,
        };
        // Others may have done it. They are no single flight: a cancel request ends only one.
        let _ = self.dialed.client.batch_execute(&help).await;
        self.plain(sql, values).await
    }
}

/// A value as a literal; `None` for a value of a type that no frequent statement has. A literal is
/// ASCII, and says itself how it is escaped: so it means the same in any session.
fn literal((value, of): &Value<'_>) -> Option<String> {
    let mut bytes = BytesMut::new();
    if let IsNull::Yes = value.to_sql_checked(of, &mut bytes).ok()? {
        return Some("NULL".to_owned());
    }
    let text = match *of {
        Type::BOOL => bool::from_sql(of, &bytes).ok()?.to_string(),
        Type::INT8 => i64::from_sql(of, &bytes).ok()?.to_string(),
        Type::TEXT => String::from_sql(of, &bytes).ok()?,
        Type::INT8_ARRAY => array(&Vec::<i64>::from_sql(of, &bytes).ok()?),
        Type::TEXT_ARRAY => array(&Vec::<&str>::from_sql(of, &bytes).ok()?),
        _ => return None,
    };
    // Whether `\'` is a quote depends on a setting.
    Some(format!("E'{}'", text.as_bytes().escape_ascii().to_string().replace("\\'", "''")))
}

fn array(elements: &[impl ToString]) -> String {
    let escape = |text: String| text.replace('\\', "\\\\").replace('"', "\\\"");
    let quoted = elements.iter().map(|it| format!("\"{}\"", escape(it.to_string())));
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_ascii_and_depends_on_no_setting() {
        let (nothing, names) = (None::<i64>, ["", "a\"\\", "ä'"]);
        let values = values![TEXT "it's \\' \u{e4}\n", INT8 i64::MIN, INT8 nothing, BOOL false,
            TEXT_ARRAY &names[..], TEXT_ARRAY &names[..0], INT8_ARRAY vec![-1_i64, 2]];
        let literals: Vec<_> = values.iter().map(|value| literal(value).unwrap()).collect();
        let expected = r#"E'it''s \\'' \xc3\xa4\n' E'-9223372036854775808' NULL E'false' \
            E'{\"\",\"a\\\"\\\\\",\"\xc3\xa4''\"}' E'{}' E'{\"-1\",\"2\"}'"#;
        assert_eq!(literals.join(" "), expected.replace("\\\n            ", ""));
    }
}
