import * as React from 'react';

import { Item } from '../model/items';
import { usePanel } from './context';
import { Failure } from './failure';

/** Shows something else in place of components that throw while they are rendered. */
export class ErrorBoundary extends React.Component<
  {
    /** Name of the content, for the log. */
    name: string;
    /** What the content is made from. The content is rendered again when this changes. */
    source: unknown;
    /** Return what is shown instead. `retry` renders the content again. */
    fallback: (retry: () => void) => React.ReactNode;
    children: React.ReactNode;
  },
  { failed: boolean; source: unknown }
> {
  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  static getDerivedStateFromProps(
    { source }: { source: unknown },
    state: { source: unknown }
  ): { failed: boolean; source: unknown } | null {
    return source === state.source ? null : { failed: false, source };
  }

  state = { failed: false, source: this.props.source };

  componentDidCatch(error: unknown): void {
    console.error(`Prime: ${this.props.name} cannot be shown.`, error);
  }

  render(): React.ReactNode {
    return this.state.failed
      ? this.props.fallback(() => this.setState({ failed: false }))
      : this.props.children;
  }
}

/** Shows a message in place of an item of the conversation that cannot be rendered. */
export function ItemBoundary(props: {
  item: Item;
  children: React.ReactNode;
}): JSX.Element {
  const { item } = props;
  const { trans } = usePanel();
  return (
    <ErrorBoundary
      name={`an item of the kind “${item.kind}”`}
      source={item}
      fallback={() => (
        <Failure
          message={trans.__(
            'This part of the conversation cannot be shown: %1',
            item.kind
          )}
          hint={trans.__('The browser’s console says why.')}
        />
      )}
    >
      {props.children}
    </ErrorBoundary>
  );
}
