use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, drawable};

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points (x, y), drawn in this order. One that is NaN or infinite interrupts the line.
    pub points: Vec<(f64, f64)>,
}

/// A horizontal line to compare curves with, such as where the untrained policy stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceLine {
    /// What the line stands for.
    pub label: String,
    /// Its height.
    pub y: f64,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Size as shown, in pixels. Drawn at twice that, as plotters rounds to whole units.
const SHOWN: (u32, u32) = (800, 450);
const SIZE: (i32, i32) = (2 * SHOWN.0 as i32, 2 * SHOWN.1 as i32);
/// Edges of the plot: left, right, bottom; the top depends on the legend.
const LEFT: i32 = 130;
const RIGHT: i32 = SIZE.0 - 50;
const BOTTOM: i32 = SIZE.1 - 120;
const LEGEND_TOP: i32 = 104;
const LEGEND_ROW: i32 = 42;
const LEGEND_ROWS: usize = 4;

const TITLE: i32 = 38;
const TEXT: i32 = 26;

const INK: RGBColor = RGBColor(32, 33, 36);
const MUTED: RGBColor = RGBColor(95, 99, 104);
const GRID: RGBColor = RGBColor(228, 230, 233);
/// Okabe and Ito's palette, told apart by colour-blind readers; its yellow is left out as too pale on white.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];

/// Draws curves into a self-contained SVG (its text is text, it needs no other file).
///
/// `y_range` fixes the vertical axis, values beyond it are drawn at its edge; otherwise the data decide, or when it is
/// not a range. With nothing to draw, the chart says "no data yet".
pub fn learning_curve_svg(
    title: &str,
    series: &[Series],
    x_label: &str,
    y_label: &str,
    y_range: Option<(f64, f64)>,
    reference_lines: &[ReferenceLine],
) -> String {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (SIZE.0 as u32, SIZE.1 as u32)).into_drawing_area();
        let drawn = chart(&root, title, series, (x_label, y_label), y_range, reference_lines);
        drawn.and_then(|()| root.present()).expect("an SVG in memory takes everything");
    }
    let head = format!("<svg width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1);
    svg.replacen(&head, &format!("<svg width=\"{}\" height=\"{}\" stroke-linejoin=\"round\"", SHOWN.0, SHOWN.1), 1)
}

fn chart(
    root: &Area<'_>,
    title: &str,
    series: &[Series],
    (x_label, y_label): (&str, &str),
    y_range: Option<(f64, f64)>,
    reference_lines: &[ReferenceLine],
) -> Drawn {
    root.fill(&WHITE)?;
    text(root, title, (LEFT, 52), TITLE, &INK, (HPos::Left, VPos::Center))?;
    let segments: Vec<_> = series.iter().map(|s| segments(&s.points)).collect();
    let points = || segments.iter().flatten().flatten();
    if points().next().is_none() {
        let middle = (SIZE.0 / 2, SIZE.1 / 2);
        return text(root, "no data yet", middle, TITLE, &MUTED, (HPos::Center, VPos::Center));
    }
    let references: Vec<_> = reference_lines.iter().filter(|line| drawable(line.y)).collect();
    let (left, right) = extent(points().map(|p| p.0));
    let x = Axis::new(left, right, 10.0, points().all(|p| p.0.fract() == 0.0));
    let y = match y_range.filter(|(low, high)| drawable(*low) && drawable(*high) && low < high) {
        Some((low, high)) => Axis::new(low, high, 6.0, false),
        None => {
            let (low, high) = extent(points().map(|p| p.1).chain(references.iter().map(|line| line.y)));
            let margin = (high - low) * 0.05;
            Axis::new(low - margin, high + margin, 6.0, false)
        }
    };
    let top = LEGEND_TOP + legend(root, series)? as i32 * LEGEND_ROW;
    let coordinates = Cartesian2d::new(x.low..x.high, y.low..y.high, (LEFT..RIGHT, BOTTOM..top));
    let plot = root.apply_coord_spec(coordinates);
    grid(root, &plot, &x, &y)?;
    text(root, x_label, ((LEFT + RIGHT) / 2, BOTTOM + 82), TEXT, &MUTED, (HPos::Center, VPos::Center))?;
    let upright = font(TEXT, &MUTED, (HPos::Center, VPos::Center)).transform(FontTransform::Rotate270);
    root.draw(&Text::new(clean(y_label), (34, (top + BOTTOM) / 2), upright))?;
    for line in references {
        let height = line.y.clamp(y.low, y.high);
        let ends = [(x.low, height), (x.high, height)];
        plot.draw(&plotters::element::DashedPathElement::new(ends, 14, 10, MUTED.stroke_width(2)))?;
        let (_, pixel) = plot.map_coordinate(&ends[1]);
        // Above its line, unless that would be outside the plot.
        let offset = if pixel - top > 36 { -18 } else { 18 };
        text(root, &line.label, (RIGHT - 8, pixel + offset), TEXT, &MUTED, (HPos::Right, VPos::Center))?;
    }
    for (index, segments) in segments.iter().enumerate() {
        let dots = segments.iter().map(Vec::len).sum::<usize>() <= 25;
        for segment in segments {
            let inside: Vec<_> = segment.iter().map(|p| (p.0, p.1.clamp(y.low, y.high))).collect();
            for point in inside.iter().filter(|_| dots || inside.len() == 1) {
                plot.draw(&Circle::new(*point, 8, colour(index).filled()))?;
            }
            plot.draw(&PathElement::new(inside, colour(index).stroke_width(5)))?;
        }
    }
    Ok(())
}

/// Grid lines, tick labels and the two axes' base line.
fn grid(root: &Area<'_>, plot: &Plot<'_>, x: &Axis, y: &Axis) -> Drawn {
    for tick in y.ticks() {
        plot.draw(&PathElement::new([(x.low, tick), (x.high, tick)], GRID.stroke_width(2)))?;
        let (_, pixel) = plot.map_coordinate(&(x.low, tick));
        text(root, &y.label(tick), (LEFT - 16, pixel), TEXT, &MUTED, (HPos::Right, VPos::Center))?;
    }
    for tick in x.ticks() {
        let (pixel, _) = plot.map_coordinate(&(tick, y.low));
        root.draw(&PathElement::new([(pixel, BOTTOM), (pixel, BOTTOM + 10)], MUTED.stroke_width(2)))?;
        text(root, &x.label(tick), (pixel, BOTTOM + 34), TEXT, &MUTED, (HPos::Center, VPos::Center))?;
    }
    root.draw(&PathElement::new([(LEFT, BOTTOM), (RIGHT, BOTTOM)], MUTED.stroke_width(2)))
}

/// Writes the legend in rows below the title and returns how many rows it took.
fn legend(root: &Area<'_>, series: &[Series]) -> Result<usize, DrawingAreaErrorKind<std::io::Error>> {
    let (mut left, mut row) = (LEFT, 0);
    for (index, one) in series.iter().enumerate() {
        let name = shortened(&one.name);
        let width = 60 + text_width(&name) + 36;
        if left > LEFT && left + width > RIGHT {
            (left, row) = (LEFT, row + 1);
        }
        let y = LEGEND_TOP + row as i32 * LEGEND_ROW;
        if row == LEGEND_ROWS - 1 && left + 2 * width > RIGHT && index + 1 < series.len() {
            text(
                root,
                &format!("and {} more", series.len() - index),
                (left, y),
                TEXT,
                &MUTED,
                (HPos::Left, VPos::Center),
            )?;
            break;
        }
        root.draw(&PathElement::new([(left, y), (left + 46, y)], colour(index).stroke_width(6)))?;
        text(root, &name, (left + 60, y), TEXT, &INK, (HPos::Left, VPos::Center))?;
        left += width;
    }
    Ok(row + 1)
}

/// The runs of neighbouring points that can be drawn.
fn segments(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    let runs = points.split(|p| !(drawable(p.0) && drawable(p.1)));
    runs.filter(|run| !run.is_empty()).map(<[_]>::to_vec).collect()
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

fn shortened(name: &str) -> String {
    const LONGEST: usize = 40;
    if name.chars().count() <= LONGEST { name.into() } else { name.chars().take(LONGEST - 1).chain(['…']).collect() }
}

/// About how wide a text is drawn: Latin letters half as wide as Chinese characters.
fn text_width(text: &str) -> i32 {
    text.chars().map(|c| if c < '\u{2e80}' { TEXT * 14 / 25 } else { TEXT }).sum()
}

/// XML knows no control characters.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}

fn font(size: i32, colour: &RGBColor, (h, v): (HPos, VPos)) -> TextStyle<'static> {
    // The backend divides font sizes by 1.24.
    ("Helvetica, Arial, sans-serif", f64::from(size) * 1.24).into_font().color(colour).pos(Pos::new(h, v))
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, colour: &RGBColor, anchor: (HPos, VPos)) -> Drawn {
    area.draw(&Text::new(clean(text), at, font(size, colour, anchor)))
}
