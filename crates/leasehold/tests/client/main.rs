//! What the users of a client see, mostly in memory and by a clock that the tests move.
#![cfg(test)]

mod election;
mod job;
mod line;
mod messages;
mod paused_time;
mod several_names;
mod verbs;
mod waiting;
