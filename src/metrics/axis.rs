/// How far values may reach; what lies beyond is left out, so that spans and scales stay finite.
pub(super) const LARGEST: f64 = 1e100;

/// Below this, a value or a span counts as zero.
const SMALLEST: f64 = 1e-200;

/// Whether a value can be drawn.
pub(super) fn drawable(value: f64) -> bool {
    value.abs() <= LARGEST
}

/// Where an axis begins and ends, and where its ticks lie.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    step: f64,
}

impl Axis {
    /// An axis over `low..=high` with about `ticks` ticks at 1, 2 or 5 times a power of ten. An empty range is widened
    /// around its value; `whole` keeps ticks on whole numbers.
    pub(super) fn new(low: f64, high: f64, ticks: f64, whole: bool) -> Axis {
        let size = low.abs().max(high.abs());
        // A span close to the rounding error of its ends would have ticks that cannot be told apart.
        let (low, high) = if high - low > f64::max(SMALLEST, size * 1e-9) {
            (low, high)
        } else {
            let margin = match (whole, size) {
                (true, _) => f64::max(1.0, size * 1e-6),
                (false, ..SMALLEST) => 1.0,
                (false, _) => size * 0.1,
            };
            (low - margin, high + margin)
        };
        let raw = (high - low) / ticks;
        let scale = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * scale).into_iter().find(|s| *s >= raw).unwrap_or(10.0 * scale);
        Axis { low, high, step: if whole { step.max(1.0) } else { step } }
    }

    /// The values with a tick.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let slack = 1e-6;
        let first = (self.low / self.step - slack).ceil();
        let last = (self.high / self.step + slack).floor();
        (0..).map(|i| first + f64::from(i)).take_while(|i| *i <= last).map(|i| i * self.step).take(50).collect()
    }

    /// What a tick says: as many decimals as the step needs, or powers of ten where digits would run long.
    pub(super) fn label(&self, tick: f64) -> String {
        // Rounded up a little, so that 0.1 counts as 10^-1 whatever its last bit.
        let order = |v: f64| (v.log10() + 1e-9).floor() as i32;
        let finest = order(self.step);
        if tick.abs() < self.step / 2.0 {
            return "0".into();
        }
        if self.low.abs().max(self.high.abs()) >= 1e6 || finest < -4 {
            let decimals = (order(tick.abs()) - finest).clamp(0, 6) as usize;
            return format!("{tick:.decimals$e}").replace('-', "−");
        }
        let decimals = (-finest).max(0) as usize;
        format!("{tick:.decimals$}").replace('-', "−")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, whole: bool) -> Vec<String> {
        let axis = Axis::new(low, high, 6.0, whole);
        axis.ticks().into_iter().map(|tick| axis.label(tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(0.0, 100.0, false), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(-0.2, 0.3, false), ["−0.2", "−0.1", "0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(0.0, 2e-6, false), ["0", "5e−7", "1.0e−6", "1.5e−6", "2.0e−6"]);
        assert_eq!(labels(3.0, 3.0, true), ["2", "3", "4"]);
        assert_eq!(labels(0.0, 2.0, true), ["0", "1", "2"]);
    }

    #[test]
    fn any_drawable_range_has_few_ticks() {
        let ends = [
            -LARGEST,
            -1e12,
            -3.0,
            -1e-300,
            0.0,
            f64::from_bits(1),
            1e-300,
            1e-199,
            1e-9,
            0.1 + 0.2,
            1e12,
            1e12 + 1e-3,
            LARGEST,
        ];
        for (i, low) in ends.into_iter().enumerate() {
            for high in ends.into_iter().skip(i) {
                for whole in [false, true] {
                    let axis = Axis::new(low, high, 6.0, whole);
                    assert!(axis.low < axis.high, "{low} {high}");
                    assert!(axis.ticks().len() <= 12, "{low} {high}: {:?}", axis.ticks());
                }
            }
        }
    }
}
