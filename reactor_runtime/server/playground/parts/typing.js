/** Where keys are letters. */

export const FIELDS = "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio], [type=button])";
