//! The fenced blocks of a Markdown file and the comments that mark them.
//!
//! `<!-- run -->` before a block: execute it. `<!-- output -->`: what the block before prints. `<!-- file: NAME -->`:
//! the block is that file.

/// One fenced block.
#[derive(Debug)]
pub struct Block {
    /// The word after the fence.
    pub language: String,
    /// The text of the comment just before it; empty without one.
    pub marker: String,
    /// The line of the opening fence, counted from 1.
    pub line: usize,
    /// Its content; ends with a newline.
    pub text: String,
    /// What it prints.
    pub output: Option<String>,
}

/// All blocks, in order.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut marker = String::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!-- ").and_then(|l| l.strip_suffix(" -->")) {
            marker = comment.to_owned();
        } else if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().map(|(_, l)| l).take_while(|l| *l != "```").collect();
            let text: String = body.iter().map(|l| format!("{l}\n")).collect();
            match (marker.as_str(), found.last_mut()) {
                ("output", Some(before)) => before.output = Some(text),
                _ => found.push(Block {
                    language: language.to_owned(),
                    marker: std::mem::take(&mut marker),
                    line: number + 1,
                    text,
                    output: None,
                }),
            }
            marker.clear();
        } else if !line.is_empty() {
            marker.clear();
        }
    }
    found
}

#[test]
fn blocks_and_their_marks_are_read() {
    let text = "<!-- run -->\n```js\na\n```\n\n<!-- output -->\n```text\nb\n```\n<!-- run -->\nwords\n```sh\nc\n```\n";
    let found = blocks(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].marker.as_str(), found[0].language.as_str(), found[0].line), ("run", "js", 2));
    assert_eq!((found[0].text.as_str(), found[0].output.as_deref()), ("a\n", Some("b\n")));
    assert_eq!((found[1].marker.as_str(), found[1].text.as_str()), ("", "c\n"));
}
