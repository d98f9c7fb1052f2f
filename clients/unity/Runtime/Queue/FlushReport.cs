using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>What a flush has done.</summary>
    public sealed class FlushReport
    {
        internal FlushReport(IReadOnlyList<FlushOutcome> outcomes, IReadOnlyList<string> revealed)
        {
            Outcomes = outcomes;
            Revealed = revealed;
        }

        /// <summary>What became of each entry, in order.</summary>
        public IReadOnlyList<FlushOutcome> Outcomes { get; }

        /// <summary>The submissions whose recordings were asked for, and are with the gateway now.</summary>
        public IReadOnlyList<string> Revealed { get; }
    }
}
