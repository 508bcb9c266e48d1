use rlver::metrics::{ReferenceLine, Series, learning_curve_svg};

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    Series { name: name.into(), points: points.to_vec() }
}

fn draw(series: &[Series], y_range: Option<(f64, f64)>) -> String {
    let lines = [ReferenceLine { label: "before training".into(), y: 30.0 }];
    learning_curve_svg("Emotion", series, "step", "final emotion", y_range, &lines)
}

/// The texts of the drawing; fails when its tags do not nest.
fn texts(svg: &str) -> Vec<String> {
    let (mut open, mut texts) = (Vec::new(), Vec::new());
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
        if tag.starts_with("text") {
            texts.push(text.trim().to_owned());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    texts
}

#[test]
fn a_chart_names_its_curves_axes_and_reference() {
    let svg =
        draw(&[series("seed 1", &[(0.0, 30.0), (60.0, 70.0)]), series("种子 2", &[(0.0, 31.0)])], Some((0.0, 100.0)));
    assert!(svg.starts_with("<svg width=\"800\" height=\"450\" "));
    let texts = texts(&svg);
    for expected in ["Emotion", "seed 1", "种子 2", "step", "final emotion", "before training", "0", "60", "100"] {
        assert!(texts.iter().any(|text| text == expected), "{expected:?} is missing in {texts:?}");
    }
    // The plot spans x = 130 to 1550 and y = 780 up to 146: 30 and 70 of 100 lie 634 · 0.3 and 634 · 0.7 above 780.
    let ends = |y: i32| svg.contains(&format!("points=\"130,590 1550,{y} \""));
    assert!(ends(336) || ends(337), "{svg}");
    assert!(!svg.contains("http://www.w3.org/1999/xlink") && !svg.contains("<image"), "needs no other file");
}

#[test]
fn nothing_to_draw_is_said() {
    let nan = (f64::NAN, 1.0);
    for empty in [vec![], vec![series("a", &[])], vec![series("a", &[nan, (1.0, f64::INFINITY)])]] {
        assert_eq!(texts(&draw(&empty, None)), ["Emotion", "no data yet"]);
    }
}

#[test]
fn a_missing_value_interrupts_the_line() {
    let whole = draw(&[series("a", &[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)])], None);
    let broken = draw(&[series("a", &[(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 5.0)])], None);
    let lines = |svg: &str| svg.matches("stroke-width=\"5\"").count();
    assert_eq!((lines(&whole), lines(&broken)), (1, 2));
}

#[test]
fn names_are_text_never_markup() {
    let svg = learning_curve_svg("a<b> & \"c\"\u{0}\u{1b}", &[series("</svg>", &[(0.0, 1.0)])], "x", "y", None, &[]);
    assert_eq!(&texts(&svg)[..2], ["a&lt;b&gt; &amp; &quot;c&quot;", "&lt;/svg&gt;"]);
    assert!(!svg.contains(['\u{0}', '\u{1b}']));
}

#[test]
fn odd_numbers_and_ranges_still_make_a_chart() {
    let odd = [
        0.0,
        -0.0,
        f64::from_bits(1),
        1e-300,
        5e-7,
        -1e9,
        1e99,
        -1e100,
        f64::MAX,
        f64::MIN,
        f64::NAN,
        f64::NEG_INFINITY,
    ];
    let ranges = [None, Some((0.0, 0.0)), Some((1.0, 0.0)), Some((f64::NAN, 1.0)), Some((f64::MIN, f64::MAX))];
    for a in odd {
        for b in odd {
            for range in ranges {
                let svg = draw(&[series("a", &[(a, b), (b, a)]), series("b", &[(a, a)])], range);
                assert!(texts(&svg).len() < 60 && !svg.contains("NaN") && !svg.contains("inf"), "{a} {b} {range:?}");
            }
        }
    }
}

#[test]
fn many_long_names_are_shortened_and_counted() {
    let many: Vec<_> = (0..40).map(|i| series(&format!("{i}: {}", "name ".repeat(30)), &[(0.0, 1.0)])).collect();
    let texts = texts(&draw(&many, None));
    let shown = texts.iter().filter(|text| text.ends_with('…')).count();
    assert!(shown >= 4 && texts.contains(&format!("and {} more", 40 - shown)), "{texts:?}");
}
