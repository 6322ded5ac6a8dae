import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IDLE } from '../model/conversation';
import { ActivityLine } from './activity';
import { Announcer } from './announcer';
import { Composer } from './composer';
import { usePanel, usePanelState } from './context';
import { ElsewhereBanner } from './elsewhereBanner';
import { EmptyState } from './emptyState';
import { ErrorBoundary } from './errorBoundary';
import { Failure } from './failure';
import { Header } from './header';
import { HelpSheet } from './helpSheet';
import { HintBar } from './hintBar';
import { SendingMessage } from './items';
import { MessageList } from './messageList';
import { ModelForm } from './modelForm';
import { QueueList } from './queue';
import { IFailure, IPanelState, isBusy } from './state';

/** The whole panel. */
export function Panel(): JSX.Element {
  const state = usePanelState();
  const { trans } = usePanel();
  return (
    <ErrorBoundary
      name="the panel"
      source={state.sessionId ?? state.notebook}
      fallback={retry => (
        <div role="alert">
          <Failure
            message={trans.__('The panel cannot be shown.')}
            hint={trans.__('The browser’s console says why.')}
          >
            <button type="button" className="jp-prime-Button" onClick={retry}>
              {trans.__('Try again')}
            </button>
          </Failure>
        </div>
      )}
    >
      <Content state={state} />
    </ErrorBoundary>
  );
}

function Content(props: { state: IPanelState }): JSX.Element {
  const { state } = props;
  const { controller } = usePanel();
  return (
    <div className="jp-prime-Panel-content">
      <Header state={state} />
      <ConnectionBanner state={state} />
      <ElsewhereBanner state={state} />
      {state.sheet === 'model' ? (
        <ModelForm state={state} />
      ) : state.sheet === 'help' ? (
        <HelpSheet />
      ) : (
        <>
          <Conversation state={state} />
          {state.failure && (
            <div role="alert">
              <Failure
                message={state.failure.message}
                hint={state.failure.hint}
                onDismiss={() => controller.dismissFailure()}
              />
            </div>
          )}
          <HintBar state={state} />
          <QueueList
            queue={state.conversation?.queue ?? []}
            waiting={state.waiting}
            held={!isBusy(state) && !state.conversation?.restoring}
          />
          <Composer state={state} />
        </>
      )}
      <Announcer />
    </div>
  );
}

function Conversation(props: { state: IPanelState }): JSX.Element {
  const { state } = props;
  const { trans } = usePanel();
  const { conversation } = state;
  if (state.notebook !== null && state.sessionId === undefined) {
    return <Loading />;
  }
  // Do not render a long session many times while it is replayed.
  if (conversation && !conversation.ready) {
    if (state.sending !== null) {
      return <SendingOnly state={state} />;
    }
    // The banner says why nothing is loaded.
    return state.refusal ? <div className="jp-prime-Messages" /> : <Loading />;
  }
  const items = conversation?.items ?? [];
  if (items.length === 0 && state.sending === null) {
    return (
      <div className="jp-prime-Messages">
        <EmptyState state={state} />
      </div>
    );
  }
  if (!conversation) {
    return <SendingOnly state={state} />;
  }
  return (
    <MessageList items={items} resetKey={`${state.sessionId} ${state.sending}`}>
      {state.sending !== null && <SendingMessage state={state} />}
      <ActivityLine
        activity={conversation.activity}
        last={items[items.length - 1]}
        stopping={state.stopping}
        sending={state.sending !== null}
        restoring={conversation.restoring}
      />
      <div className="jp-prime-VisuallyHidden">
        {trans.__('End of the conversation')}
      </div>
    </MessageList>
  );
}

function Loading(): JSX.Element {
  const { trans } = usePanel();
  return (
    <div className="jp-prime-Messages">
      <div className="jp-prime-Loading">
        <span className="jp-prime-Spinner" />
        {trans.__('Loading…')}
      </div>
    </div>
  );
}

/** The first message, while its session is being created. */
function SendingOnly(props: { state: IPanelState }): JSX.Element {
  const { stopping } = props.state;
  return (
    <div className="jp-prime-Messages">
      <div className="jp-prime-Messages-content">
        <SendingMessage state={props.state} />
        <ActivityLine
          activity={IDLE}
          last={undefined}
          stopping={stopping}
          sending={true}
          restoring={false}
        />
      </div>
    </div>
  );
}

/**
 * A banner shown while the server cannot be reached or refuses the session, or the stream is
 * disconnected.
 */
export function ConnectionBanner(props: { state: IPanelState }): JSX.Element {
  const { connection, refusal, serverFailure, server, notebook, sessionId } =
    props.state;
  const { controller, trans } = usePanel();
  const [lasting, setLasting] = React.useState(false);
  const broken = connection === 'disconnected' || connection === 'connecting';
  // Do not show a banner for a short interruption of the network.
  React.useEffect(() => {
    setLasting(false);
    if (broken) {
      const timer = window.setTimeout(() => setLasting(true), 1500);
      return () => window.clearTimeout(timer);
    }
    return undefined;
  }, [broken]);
  const isWaiting =
    server === null || (notebook !== null && sessionId === undefined);
  const unavailable = serverFailure !== null && isWaiting;
  // Screen readers announce only changes inside a live region that exists already.
  return (
    <div role="status">
      {(unavailable || (broken && lasting)) && (
        <div className="jp-prime-Banner">
          <span>
            {unavailable
              ? unavailableText(serverFailure, trans)
              : refusal
                ? `${refusal.message} ${refusal.hint}`
                : trans.__(
                    'Disconnected from the server. While it runs, the agent keeps working; reconnecting…'
                  )}
          </span>
          <button
            type="button"
            className="jp-prime-Button"
            onClick={() => {
              void controller.reconnect();
            }}
          >
            {trans.__('Reconnect')}
          </button>
        </div>
      )}
    </div>
  );
}

function unavailableText(failure: IFailure, trans: TranslationBundle): string {
  // An error response without one of our codes: the server extension is not loaded.
  return failure.code === 'http_error'
    ? trans.__(
        'The server part of Prime is not running. “jupyter server extension list” shows why.'
      )
    : `${failure.message} ${failure.hint}`;
}
