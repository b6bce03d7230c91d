//! Values for statements: beside them, or as literals within them. Literals are ASCII, and say
//! themselves how they are escaped: so they mean the same in any session.

use bytes::BytesMut;
use tokio_postgres::types::{FromSql as _, IsNull, ToSql, Type};

/// A value for a statement, with its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// A value as a literal; `None` for a value of a type that no frequent statement has.
pub(super) fn literal((value, of): &Value<'_>) -> Option<String> {
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
