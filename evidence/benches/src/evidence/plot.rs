//! A figure of the campaign as a picture.

use std::path::Path;

use plotters::prelude::*;

use super::runs::{Runs, worst};
use crate::outcome::Outcome;

const SIZE: (u32, u32) = (900, 480);
const COLOR: RGBColor = RGBColor(31, 119, 180);

/// A bar for each topology: the longest time without a grant.
pub(super) fn silence(runs: &Runs, file: &Path) -> Outcome {
    let worst: Vec<(String, u64)> = worst(runs).into_iter().collect();
    let highest = worst.iter().map(|(_, ms)| *ms).max().unwrap_or(1);
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Longest time in which nobody was granted anything", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(120)
        .build_cartesian_2d(0..highest * 11 / 10 + 1, (0..worst.len()).into_segmented())?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => {
            worst.iter().rev().nth(*at).map_or_else(String::new, |(name, _)| name.clone())
        }
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(worst.len())
        .y_label_formatter(&name)
        .x_desc("ms after a fault has begun, until the next one")
        .draw()?;
    chart.draw_series(worst.iter().rev().enumerate().map(|(at, (_, ms))| {
        let corners = [(0, SegmentValue::Exact(at)), (*ms, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(corners, COLOR.filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    Ok(root.present()?)
}
