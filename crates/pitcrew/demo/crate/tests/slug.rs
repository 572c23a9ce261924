use texttools::slug::slug;

#[test]
fn words_are_joined_by_dashes() {
    assert_eq!(slug("Two Words"), "two-words");
}

#[test]
fn punctuation_and_runs_of_spaces_are_dropped() {
    assert_eq!(slug("  Hello,  World!  "), "hello-world");
}

#[test]
fn letters_of_every_alphabet_stay() {
    assert_eq!(slug("Größe & Maß"), "größe-maß");
}
