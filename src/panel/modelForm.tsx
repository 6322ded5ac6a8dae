import * as React from 'react';

import { usePanel } from './context';
import { Failure } from './failure';
import { Sheet } from './sheet';
import { failureOf, IFailure, IPanelState } from './state';

/** Example of the address of a local server. */
const EXAMPLE_URL = 'http://localhost:8080';

/**
 * The form to connect a model. The key is sent to the server once and never sent back: the field is
 * empty whenever the form opens, and its value is discarded when the form closes.
 */
export function ModelForm(props: { state: IPanelState }): JSX.Element {
  const { controller, trans } = usePanel();
  const { server } = props.state;
  const key = React.useRef<HTMLInputElement>(null);
  const [kind, setKind] = React.useState<'anthropic' | 'server'>('anthropic');
  const [baseUrl, setBaseUrl] = React.useState('');
  const [busy, setBusy] = React.useState(false);
  const [failure, setFailure] = React.useState<IFailure | null>(null);
  const [unchecked, setUnchecked] = React.useState<string | null>(null);
  const keyId = React.useId();
  const urlId = React.useId();
  const close = (): void => controller.showSheet('none');
  const choose = (chosen: typeof kind): void => {
    setKind(chosen);
    // It was said of the other kind.
    setFailure(null);
  };

  const connect = async (): Promise<void> => {
    const apiKey = key.current!.value.trim();
    if (kind === 'anthropic' && apiKey === '') {
      setFailure({
        code: 'no_key',
        message: trans.__('The API key is missing.'),
        hint: trans.__('Paste the key from your provider’s console.')
      });
      return;
    }
    setBusy(true);
    setFailure(null);
    try {
      const reason = await controller.modelConnection.connect({
        provider: 'anthropic',
        ...(apiKey ? { api_key: apiKey } : {}),
        ...(kind === 'server' ? { base_url: baseUrl.trim() } : {})
      });
      if (reason === null) {
        close();
      } else {
        setUnchecked(reason);
      }
    } catch (reason) {
      setFailure(failureOf(reason));
    } finally {
      setBusy(false);
    }
  };

  if (unchecked !== null) {
    return (
      <Sheet title={trans.__('Connect a model')} onClose={close}>
        <p role="status">
          {trans.__('Stored, but it could not be checked: %1', unchecked)}
        </p>
        <div className="jp-prime-Form-buttons">
          <button
            type="button"
            className="jp-prime-Button jp-mod-accept"
            onClick={close}
            autoFocus
          >
            {trans.__('Close')}
          </button>
        </div>
      </Sheet>
    );
  }
  return (
    <Sheet title={trans.__('Connect a model')} onClose={close}>
      <form
        className="jp-prime-Form"
        autoComplete="off"
        onSubmit={event => {
          event.preventDefault();
          void connect();
        }}
      >
        <fieldset>
          <legend>{trans.__('Where the model runs')}</legend>
          <label>
            <input
              type="radio"
              name="kind"
              checked={kind === 'anthropic'}
              onChange={() => choose('anthropic')}
            />
            {trans.__('Anthropic')}
          </label>
          <label>
            <input
              type="radio"
              name="kind"
              checked={kind === 'server'}
              onChange={() => choose('server')}
            />
            {trans.__('Another server that speaks the Messages API')}
          </label>
        </fieldset>
        {kind === 'server' && (
          <div className="jp-prime-Field">
            <label htmlFor={urlId}>{trans.__('Base URL')}</label>
            <input
              id={urlId}
              className="jp-mod-styled"
              type="url"
              required
              placeholder={EXAMPLE_URL}
              value={baseUrl}
              onChange={event => setBaseUrl(event.target.value)}
            />
          </div>
        )}
        <div className="jp-prime-Field">
          <label htmlFor={keyId}>
            {kind === 'server'
              ? trans.__('API key, if the server requires one')
              : trans.__('API key')}
          </label>
          <input
            id={keyId}
            ref={key}
            className="jp-mod-styled"
            type="password"
            autoComplete="off"
            spellCheck={false}
          />
        </div>
        <p className="jp-prime-Form-note">
          {trans.__(
            'The key is stored on the Jupyter server, readable only by you. It is not kept in the browser, and never shown to the kernel or the model.'
          )}
        </p>
        {failure && (
          <div role="alert">
            <Failure message={failure.message} hint={failure.hint} />
          </div>
        )}
        <div className="jp-prime-Form-buttons">
          <button
            type="submit"
            className="jp-prime-Button jp-mod-accept"
            disabled={busy}
          >
            {busy ? trans.__('Connecting…') : trans.__('Connect')}
          </button>
          <button type="button" className="jp-prime-Button" onClick={close}>
            {trans.__('Cancel')}
          </button>
        </div>
      </form>
      {server?.credentials === 'stored' && (
        <div className="jp-prime-Form-stored">
          <span>
            {server.endpoint
              ? trans.__('The connection to %1 is stored.', server.endpoint)
              : trans.__('A key is stored on the server.')}
          </span>
          <button
            type="button"
            className="jp-prime-Button"
            onClick={() => {
              void controller.modelConnection.disconnect().then(close);
            }}
          >
            {trans.__('Remove it')}
          </button>
        </div>
      )}
      {(server?.credentials === 'environment' ||
        server?.credentials === 'config') && (
        <p className="jp-prime-Form-note">
          {server.credentials === 'environment'
            ? trans.__(
                'A key is set in the server’s environment. A key entered here replaces ANTHROPIC_API_KEY, but not PRIME_API_KEY.'
              )
            : trans.__(
                'A key is set in the server’s configuration. It can only be replaced there.'
              )}
        </p>
      )}
    </Sheet>
  );
}
