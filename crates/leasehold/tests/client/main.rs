//! The library as its users see it, mostly in memory and on a clock that the tests move.
#![cfg(test)]

mod election;
mod forgotten;
mod job;
mod line;
mod messages;
mod paused_time;
mod several_names;
mod verbs;
mod waiting;
