use texttools::stats::frequencies;

#[test]
fn the_most_frequent_word_comes_first() {
    let counted = frequencies("a tree, a bush - and the tree: a TREE!");
    assert_eq!(counted[0], ("a".to_owned(), 3));
    assert_eq!(counted[1], ("tree".to_owned(), 3));
}

#[test]
fn punctuation_is_no_word() {
    assert_eq!(
        frequencies("yes - no"),
        [("no".to_owned(), 1), ("yes".to_owned(), 1)]
    );
}
