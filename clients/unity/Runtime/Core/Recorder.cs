using System;
using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>
    /// Records a play, tick by tick: call <see cref="Tick"/> with each input word and, whenever
    /// <see cref="IsCheckpointDue"/>, <see cref="Checkpoint"/> with the hash of the state.
    /// </summary>
    public sealed class Recorder
    {
        private readonly List<InputRun> inputs = new List<InputRun>();
        private readonly List<ulong> checkpoints = new List<ulong>();
        private readonly uint checkpointTicks;
        private uint length;
        private uint word;

        /// <summary>Begin a play with the run's <c>CheckpointTicks</c>; 0 means no checkpoints.</summary>
        public Recorder(uint checkpointTicks)
        {
            this.checkpointTicks = checkpointTicks;
        }

        /// <summary>The ticks so far.</summary>
        public uint Ticks { get; private set; }

        /// <summary>True if the hash of the state after the last tick is still missing.</summary>
        public bool IsCheckpointDue { get; private set; }

        /// <summary>Record the input of the next tick.</summary>
        /// <exception cref="InvalidOperationException">A checkpoint is missing, or the play is too long.</exception>
        public void Tick(uint input)
        {
            RequireNoCheckpointDue();
            if (Ticks == uint.MaxValue)
            {
                throw new InvalidOperationException("a recording has at most 4294967295 ticks");
            }

            if (length > 0 && input != word)
            {
                inputs.Add(new InputRun(length, word));
                length = 0;
            }

            word = input;
            length++;
            Ticks++;
            IsCheckpointDue = checkpointTicks > 0 && Ticks % checkpointTicks == 0;
        }

        /// <summary>Record the state's hash after the last tick.</summary>
        /// <exception cref="InvalidOperationException">No checkpoint is due.</exception>
        public void Checkpoint(ulong hash)
        {
            if (!IsCheckpointDue)
            {
                throw new InvalidOperationException("no checkpoint is due after tick " + Ticks);
            }

            checkpoints.Add(hash);
            IsCheckpointDue = false;
        }

        /// <summary>Return the recording of the play so far. It may go on.</summary>
        /// <exception cref="InvalidOperationException">A checkpoint is missing, or there was no tick.</exception>
        public byte[] Finish()
        {
            RequireNoCheckpointDue();
            if (Ticks == 0)
            {
                throw new InvalidOperationException("a recording has at least one tick");
            }

            var all = new List<InputRun>(inputs) { new InputRun(length, word) };
            return Recording.Encode(all, checkpoints, checkpointTicks);
        }

        private void RequireNoCheckpointDue()
        {
            if (IsCheckpointDue)
            {
                throw new InvalidOperationException("the checkpoint after tick " + Ticks + " is missing");
            }
        }
    }
}
