//! The tables of the peers as pictures.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::measure::number;
use crate::outcome::Outcome;
use crate::peers::row::{Row, Want};
use crate::peers::trial::Trials;

const SIZE: (u32, u32) = (900, 480);

const OURS: RGBColor = RGBColor(31, 119, 180);
const OTHERS: RGBColor = RGBColor(150, 150, 150);

/// The values of one peer in a picture.
struct Point {
    name: &'static str,
    /// Entries per second.
    rate: f64,
    longest: Duration,
}

/// Draws how fast the locks of one process are. For one hot name, draws the speed and the longest
/// wait.
pub(super) fn draw(rows: &[(Row, Trials)], directory: &Path) -> Outcome {
    std::fs::create_dir_all(directory)?;
    for (row, trials) in rows {
        let Row { want, processes, tasks } = *row;
        let points: Vec<Point> = trials
            .values()
            .filter_map(|(peer, trial)| {
                let trial = trial.as_ref().ok()?;
                Some(Point { name: peer.name, rate: trial.rate(), longest: trial.longest })
            })
            .collect();
        match want {
            Want::Alone => bars(row, &points, &directory.join(format!("alone-{tasks}.svg")))?,
            Want::Hot => {
                scatter(row, &points, &directory.join(format!("hot-{processes}x{tasks}.svg")))?;
            }
        }
    }
    Ok(())
}

/// The range of a logarithmic axis that shows all these values.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    low / 2.0..high * 4.0
}

fn color(name: &str) -> RGBColor {
    if name.starts_with("leasehold") { OURS } else { OTHERS }
}

/// A bar for each peer: entries per second, the first on top.
fn bars(row: &Row, points: &[Point], file: &Path) -> Outcome {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let rates = range(points.iter().map(|point| point.rate));
    let least = rates.start;
    let mut chart = ChartBuilder::on(&root)
        .caption(row.title(), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(220)
        .build_cartesian_2d(rates.log_scale(), (0..points.len()).into_segmented())?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => points.iter().rev().nth(*at).map_or("", |point| point.name),
        SegmentValue::Exact(_) | SegmentValue::Last => "",
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(points.len())
        .y_label_formatter(&|at| name(at).to_owned())
        .x_desc("acquire + release, pairs per second (more is better)")
        .draw()?;
    chart.draw_series(points.iter().rev().enumerate().map(|(at, point)| {
        let ends = [(least, SegmentValue::Exact(at)), (point.rate, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(ends, color(point.name).filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    chart.draw_series(points.iter().rev().enumerate().map(|(at, point)| {
        let end = (point.rate, SegmentValue::CenterOf(at));
        Text::new(number(point.rate), end, ("sans-serif", 14).into_font())
    }))?;
    Ok(root.present()?)
}

/// Whether a point is where the name of the point at `at` would be, at its right.
fn is_under_name(name: &str, at: (i32, i32), point: (i32, i32)) -> bool {
    let width = 7 * name.len() as i32;
    (1..=width).contains(&(point.0 - at.0)) && (at.1 - point.1).abs() < 14
}

/// A point for each peer: entries per second to the right, the longest wait upwards.
fn scatter(row: &Row, points: &[Point], file: &Path) -> Outcome {
    let longest_ms = |point: &Point| point.longest.as_secs_f64() * 1e3;
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(row.title(), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(
            range(points.iter().map(|point| point.rate)).log_scale(),
            range(points.iter().map(longest_ms)).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("entries per second (more is better)")
        .y_desc("longest wait, ms (less is better)")
        .draw()?;
    let pixel = |point: &Point| chart.backend_coord(&(point.rate, longest_ms(point)));
    let pixels: Vec<_> = points.iter().map(pixel).collect();
    chart.draw_series(points.iter().zip(&pixels).map(|(point, at)| {
        // The name is at the right, or at the left if it would hide another point.
        let is_crowded = pixels.iter().any(|other| is_under_name(point.name, *at, *other));
        let (side, away) = if is_crowded { (HPos::Right, -9) } else { (HPos::Left, 9) };
        let style = TextStyle::from(("sans-serif", 14)).pos(Pos::new(side, VPos::Center));
        EmptyElement::at((point.rate, longest_ms(point)))
            + Circle::new((0, 0), 5, color(point.name).filled())
            + Text::new(point.name, (away, 0), style)
    }))?;
    Ok(root.present()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::programs::PEERS;
    use crate::peers::row::ROWS;

    #[test]
    fn every_peer_is_in_the_picture_of_each_row() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("picture.svg");
        for count in [1, 2, 13] {
            let points: Vec<Point> = PEERS[..count]
                .iter()
                .zip(1_u32..)
                .map(|(peer, at)| Point {
                    name: peer.name,
                    rate: 10_f64.powi(at as i32 % 6),
                    longest: Duration::from_millis(u64::from(at)),
                })
                .collect();
            for row in ROWS {
                match row.want {
                    Want::Alone => bars(&row, &points, &file).unwrap(),
                    Want::Hot => scatter(&row, &points, &file).unwrap(),
                }
                let picture = std::fs::read_to_string(&file).unwrap();
                let missing = PEERS[..count].iter().find(|peer| !picture.contains(peer.name));
                assert!(missing.is_none(), "{missing:?} in {row:?}");
            }
        }
    }
}
