// Where the focus goes when something was refused. Where words are missing or wrong (422) it goes to the field that the
// reader writes on in, so that what they type next is text and no key of the page: `a` would be a yes. Else it goes to
// the sentence, where keys only move on.

const TEXT = "textarea, input:not([type=hidden], [type=radio], [type=checkbox])";
const isOpen = (field) => field.offsetParent && !field.readOnly && !field.matches(":disabled");

/** Go on from a refusal: `form` is where it was sent from, `sentence` the element that says why, `status` the answer's. */
export function goOn(form, sentence, status) {
  const fields = status === 422 ? [...form.querySelectorAll(TEXT)].filter(isOpen) : [];
  (fields.find((field) => field.ariaInvalid === "true") ?? fields[0] ?? sentence)?.focus();
}
