//! The frequent requests for names that nobody awaits, each as one statement: take, keep, end.
//!
//! A statement that returns no row has granted nothing and changed nothing. Nor has one that the
//! server refuses. A general step follows then, which knows why.

use leasehold_core::model::text;
use leasehold_core::{
    Answer, End, FencingToken, Grant, HolderId, Keep, LockName, Mode, Now, Reply, StoreError, Take,
};
use tokio_postgres::types::Type;

use super::connection::Sessions;
use super::record::{damaged, now};

const TAKE: &str = include_str!("take.sql");
const KEEP: &str = include_str!("keep.sql");
const END: &str = include_str!("end.sql");

/// Takes a free name.
pub(crate) async fn take(
    sessions: &Sessions,
    name: &LockName,
    take: &Take,
) -> Result<Option<Answer>, StoreError> {
    let Take { request, ttl, place, ballot_us, from, claim, once_per, .. } = take;
    let is_plain = place.is_none() && ballot_us.is_none() && from.is_none() && claim.is_none();
    if !is_plain || once_per.is_some() || request.mode != Mode::Exclusive {
        return Ok(None);
    }
    // The attempt, a star, and the facts.
    let words = text::request(request);
    let facts = words.split_once('*').map_or("", |(_, facts)| facts);
    let (own, ttl_ms) = (own(request.id), millis(*ttl));
    let is_guarded = sessions.boot().is_guarded;
    let values = [
        (&name.as_str() as _, Type::TEXT),
        (&own as _, Type::TEXT),
        (&facts as _, Type::TEXT),
        (&ttl_ms as _, Type::INT8),
        (&is_guarded as _, Type::BOOL),
    ];
    let rows = sessions.attempt((TAKE, true), &values).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let token_us: i64 = row.get(1);
    let token_us = u64::try_from(token_us).map_err(|_| damaged("a token"))?;
    let grant = Grant::new(FencingToken::from_micros(token_us));
    Ok(Some(Answer::new(now(row.get(0))?, Reply::Granted(grant))))
}

/// Renews leases, and returns when. Those whose indices are not returned need a general step.
pub(crate) async fn keep(
    sessions: &Sessions,
    leases: &[(LockName, Keep)],
) -> Result<Option<(Now, Vec<usize>)>, StoreError> {
    let is_thin = |at: &usize| {
        let Keep { request, description, .. } = &leases[*at].1;
        request.mode == Mode::Exclusive && description.is_none()
    };
    let mut indices: Vec<usize> = (0..leases.len()).filter(is_thin).collect();
    if indices.is_empty() {
        return Ok(None);
    }
    // All steps lock rows in this order, so that no two wait for each other.
    indices.sort_by_key(|at| &leases[*at].0);
    let of = |at: &usize| &leases[*at];
    let names: Vec<&str> = indices.iter().map(|at| of(at).0.as_str()).collect();
    let attempts: Vec<String> = indices.iter().map(|at| own(of(at).1.request.id)).collect();
    let ttls: Vec<i64> = indices.iter().map(|at| millis(of(at).1.ttl)).collect();
    let values = [
        (&names as _, Type::TEXT_ARRAY),
        (&attempts as _, Type::TEXT_ARRAY),
        (&ttls as _, Type::INT8_ARRAY),
    ];
    let rows = sessions.attempt((KEEP, true), &values).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let kept = rows.iter().map(|row| {
        let at = usize::try_from(row.get::<_, i64>(1)).ok();
        at.and_then(|at| indices.get(at.checked_sub(1)?).copied())
            .ok_or_else(|| damaged("an answer"))
    });
    Ok(Some((now(first.get(0))?, kept.collect::<Result<_, _>>()?)))
}

/// Releases a name.
pub(crate) async fn end(
    sessions: &Sessions,
    name: &LockName,
    end: &End,
) -> Result<Option<Answer>, StoreError> {
    let End { request, closes, cooldown, done, .. } = end;
    if *closes || !cooldown.is_zero() || !done.is_zero() || request.mode != Mode::Exclusive {
        return Ok(None);
    }
    let own = own(request.id);
    let values = [(&name.as_str() as _, Type::TEXT), (&own as _, Type::TEXT)];
    let rows = sessions.attempt((END, false), &values).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Answer::new(now(row.get(0))?, Reply::Ended(true))))
}

/// What a hold of this attempt begins with.
fn own(id: HolderId) -> String {
    format!("h {id} ")
}

/// Whole milliseconds of a span, of which none is lost.
fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX)
}
