/** Tasks of this process, one after the other. */
export declare class Turns {
    #private;
    /**
     * Runs a task once those before it have ended.
     * @template Result
     * @param {() => Promise<Result>} task
     * @returns {Promise<Result>}
     */
    take<Result>(task: () => Promise<Result>): Promise<Result>;
}
