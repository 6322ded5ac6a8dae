import * as schema from '../../../schema/plugin.json';
import { DEFAULT_SETTINGS, fromComposite } from '../settings';

describe('fromComposite', () => {
  it('has the defaults that the schema declares', () => {
    const declared = Object.fromEntries(
      Object.entries(schema.properties).map(([name, property]) => [
        name,
        property.default
      ])
    );
    expect(fromComposite(declared)).toEqual(DEFAULT_SETTINGS);
    expect(Object.keys(declared).sort()).toEqual(
      Object.keys(DEFAULT_SETTINGS).sort()
    );
  });

  it('uses the user’s settings', () => {
    expect(
      fromComposite({
        permissionMode: 'plan',
        model: 'm',
        restoreVariables: 'never',
        toolCards: 'expanded'
      })
    ).toMatchObject({
      permissionMode: 'plan',
      restoreVariables: 'never',
      model: 'm',
      toolCards: 'expanded',
      sendWith: 'enter'
    });
  });
});
