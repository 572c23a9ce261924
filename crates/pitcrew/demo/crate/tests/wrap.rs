use texttools::wrap::wrap;

#[test]
fn a_line_may_be_filled_to_its_width() {
    assert_eq!(wrap("ab cd ef", 5), ["ab cd", "ef"]);
}

#[test]
fn the_width_is_counted_in_characters() {
    assert_eq!(wrap("äöü äöü äöü", 7), ["äöü äöü", "äöü"]);
}

#[test]
fn a_long_word_gets_a_line_of_its_own() {
    assert_eq!(
        wrap("a incomprehensibilities b", 6),
        ["a", "incomprehensibilities", "b"]
    );
}
