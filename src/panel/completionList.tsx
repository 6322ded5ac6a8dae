import * as React from 'react';

/** One option of the list. */
export interface ICompletion {
  readonly key: string;
  readonly content: React.ReactNode;
  readonly title?: string;
  readonly choose: () => void;
}

export interface ICompletionGroup {
  readonly key: string;
  /** Heading of the group; `null` for none. */
  readonly heading: string | null;
  readonly completions: readonly ICompletion[];
}

/** The list of completions. The focus stays in the text field. */
export function CompletionList(props: {
  id: string;
  label: string;
  groups: readonly ICompletionGroup[];
  /** Index of the selected option, counted over all groups. */
  chosen: number;
}): JSX.Element {
  const list = React.useRef<HTMLDivElement>(null);
  React.useLayoutEffect(() => {
    const option = list.current?.querySelector('[aria-selected=true]');
    option?.scrollIntoView?.({ block: 'nearest' });
  }, [props.chosen, props.groups]);
  let index = 0;
  return (
    <div
      ref={list}
      className="jp-prime-Completions"
      role="listbox"
      id={props.id}
      aria-label={props.label}
      // A click on a heading or the scrollbar must not take the focus.
      onMouseDown={event => event.preventDefault()}
    >
      {props.groups.map(({ key, heading, completions }) => (
        <div
          key={key}
          role="group"
          aria-label={heading ?? props.label}
          className="jp-prime-Completions-group"
        >
          {heading !== null && (
            <div className="jp-prime-Completions-heading" aria-hidden="true">
              {heading}
            </div>
          )}
          {completions.map(completion => {
            const place = index++;
            return (
              <div
                key={completion.key}
                id={`${props.id}-${place}`}
                className="jp-prime-Completion"
                role="option"
                aria-selected={place === props.chosen}
                title={completion.title}
                onClick={completion.choose}
              >
                {completion.content}
              </div>
            );
          })}
        </div>
      ))}
    </div>
  );
}
